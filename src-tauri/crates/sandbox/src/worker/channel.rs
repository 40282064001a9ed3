//! Blocking frames over descriptor 0.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read, Write},
    mem::ManuallyDrop,
    os::fd::FromRawFd,
    rc::Rc,
};

use crate::frame::{self, FromWorker, Malformed, ToWorker};

/// Bytes asked of the socket at once, while little and while much is to come. Measured: it has at most about 200 KiB
/// ready. Each is filled with zeros first, which an ordinary frame should not pay for.
const STEP: usize = 16 << 10;
const LARGE_STEP: usize = 128 << 10;

/// Why no more frames can be exchanged. The worker ends.
#[derive(Debug)]
pub enum Gone {
    /// The host closed the socket: the ordinary end.
    Closed,
    /// The socket or what came over it made no sense.
    Broken(&'static str),
}

impl From<Malformed> for Gone {
    fn from(malformed: Malformed) -> Gone {
        Gone::Broken(malformed.0)
    }
}

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone::Closed
    }
}

/// The worker's socket. Clones share it.
#[derive(Clone)]
pub struct Channel(Rc<RefCell<Ends>>);

struct Ends {
    socket: ManuallyDrop<File>,
    read: Vec<u8>,
    at: usize,
    /// Frames that can wait for the next one that cannot.
    held: Vec<u8>,
    /// Longest frame, see [`frame::most`].
    most: usize,
}

impl Channel {
    /// Takes descriptor 0 as the socket.
    pub fn on_stdin() -> Channel {
        // SAFETY: descriptor 0 is open for the whole life of a worker and never closed (ManuallyDrop).
        let socket = ManuallyDrop::new(unsafe { File::from_raw_fd(0) });
        Channel(Rc::new(RefCell::new(Ends {
            socket,
            read: Vec::new(),
            at: 0,
            held: Vec::new(),
            most: frame::MAX_FRAME,
        })))
    }

    /// Sets how long a frame may be from now on, by the heap of the plugin.
    pub fn for_memory(&self, memory: u64) {
        self.0.borrow_mut().most = frame::most(memory);
    }

    /// Sends a frame, after those held back.
    pub fn send(&self, frame: &FromWorker) -> Result<(), Gone> {
        self.hold(frame)?;
        self.flush()
    }

    /// Keeps a frame until the next `send` or `flush`, so that a call and "I wait for it" cost one system call together.
    /// Fails, and keeps nothing, when the frame is too long.
    pub fn hold(&self, frame: &FromWorker) -> Result<(), Malformed> {
        let mut ends = self.0.borrow_mut();
        let frame = frame.encode_within(ends.most)?;
        if ends.held.is_empty() {
            ends.held = frame;
        } else {
            ends.held.extend_from_slice(&frame);
        }
        Ok(())
    }

    /// Sends the frames held back.
    pub fn flush(&self) -> Result<(), Gone> {
        let mut ends = self.0.borrow_mut();
        let held = std::mem::take(&mut ends.held);
        ends.socket.write_all(&held)?;
        Ok(())
    }

    /// Waits for the next frame.
    pub fn receive(&self) -> Result<ToWorker, Gone> {
        let mut ends = self.0.borrow_mut();
        ends.fill(4)?;
        let at = ends.at;
        let mut prefix = [0; 4];
        prefix.copy_from_slice(&ends.read[at..at + 4]);
        let length = frame::length(prefix, ends.most)?;
        ends.fill(4 + length)?;
        let end = at + 4 + length;
        // `fill` may have moved the bytes to the front.
        let (start, end) = (ends.at + 4, ends.at + end - at);
        let frame = ToWorker::decode(&ends.read[start..end])?;
        ends.at = end;
        if ends.at == ends.read.len() {
            ends.at = 0;
            ends.read.clear();
            ends.read.shrink_to(1 << 20);
        }
        Ok(frame)
    }
}

impl Ends {
    /// Makes sure that `wanted` bytes are there from `at` on.
    fn fill(&mut self, wanted: usize) -> Result<(), Gone> {
        while self.read.len() - self.at < wanted {
            self.read.drain(..self.at);
            self.at = 0;
            let have = self.read.len();
            // The host can be believed about lengths.
            let missing = wanted.saturating_sub(have);
            self.read.reserve_exact(missing);
            self.read
                .resize(have + if missing > LARGE_STEP { LARGE_STEP } else { STEP }, 0);
            let got = self.socket.read(&mut self.read[have..]);
            self.read.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(Gone::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone::Broken("the socket cannot be read")),
            }
        }
        Ok(())
    }
}
