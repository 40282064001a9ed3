//! The keychain, kept at arm's length: every call to it runs on a thread of its own, because a locked keyring may be
//! waiting for its password dialog, and a broken bus may never answer at all.

use std::sync::mpsc;
use std::time::Duration;

use keyring::v1::{Entry, Error};

use crate::{Bound, Origin, Secret};

/// First line of every entry, so that forms can be told apart.
const FORM: &str = "chrysalis-key-2";
/// That of version 0.1: its second line is an origin without a path.
const OLD_FORM: &str = "chrysalis-key-1";

/// How long anything waits for the keychain. A healthy one answers within 50 ms and an absent bus fails within 25 ms
/// (measured, design/desktop.md); past this it is stuck or is asking the person for a password.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Why the keychain did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is none in this session, and there will be none until the program starts again.
    Absent(String),
    /// It is locked, and nobody unlocked it: the person has to ask for it.
    Locked(String),
    /// It is there and refused. It may work later.
    Refused(String),
    /// It did not answer in time.
    Silent,
    /// This one key could not be kept, others may.
    ThisKey(String),
}

impl Trouble {
    pub(crate) fn reason(&self) -> String {
        match self {
            Trouble::Absent(why) | Trouble::Locked(why) | Trouble::Refused(why) | Trouble::ThisKey(why) => why.clone(),
            Trouble::Silent => format!(
                "the keychain did not answer within {} seconds; it may be waiting for its password",
                PATIENCE.as_secs()
            ),
        }
    }
}

/// Texts are our own: some of the library's errors carry the stored bytes.
fn trouble(error: Error) -> Trouble {
    match error {
        Error::NoStorageAccess(_) => Trouble::Locked("the keychain is locked".into()),
        Error::NoDefaultStore | Error::PlatformFailure(_) | Error::NotSupportedByStore(_) => {
            Trouble::Absent("this session has no keychain (on Linux: no Secret Service such as GNOME Keyring)".into())
        }
        Error::TooLong(..) => Trouble::ThisKey("the key is too long for this system's keychain".into()),
        Error::BadEncoding(_) | Error::BadDataFormat(..) | Error::BadStoreFormat(_) => {
            Trouble::ThisKey("the keychain's entry for this key is damaged; save the key again".into())
        }
        Error::Ambiguous(_) => Trouble::ThisKey("the keychain holds several entries for this key".into()),
        _ => Trouble::Refused("the keychain refused the request".into()),
    }
}

/// Runs `work` on a thread and waits for it, at most [`PATIENCE`]. `late` runs on that thread, with the result, when
/// nobody was waiting any more.
pub(crate) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
    late: impl FnOnce(Result<T, Trouble>) + Send + 'static,
) -> Result<T, Trouble> {
    // A rendezvous channel: the answer is either taken by a waiting caller or handed back to `late`, never lost.
    let (give, take) = mpsc::sync_channel(0);
    let started = std::thread::Builder::new().name("keychain".into()).spawn(move || {
        if let Err(mpsc::SendError(result)) = give.send(work()) {
            late(result);
        }
    });
    if started.is_err() {
        return Err(Trouble::Refused(
            "no thread could be started to ask the keychain".into(),
        ));
    }
    take.recv_timeout(PATIENCE).unwrap_or_else(|error| match error {
        mpsc::RecvTimeoutError::Timeout => Err(Trouble::Silent),
        mpsc::RecvTimeoutError::Disconnected => Err(Trouble::Refused("asking the keychain failed".into())),
    })
}

pub(crate) fn write(service: &str, id: &str, bound: &Bound, key: &Secret) -> Result<(), Trouble> {
    let mut body = format!("{FORM}\n{bound}\n").into_bytes();
    body.extend_from_slice(key.expose_to_net());
    let body = Secret::from_bytes(body);
    let entry = Entry::new(service, id).map_err(trouble)?;
    match entry.set_secret(body.expose_to_net()) {
        Err(Error::Ambiguous(entries)) => {
            for entry in entries {
                entry.delete_credential().map_err(trouble)?;
            }
            entry.set_secret(body.expose_to_net()).map_err(trouble)
        }
        other => other.map_err(trouble),
    }
}

/// `Ok(None)` when there is no entry under this id.
pub(crate) fn read(service: &str, id: &str) -> Result<Option<(Bound, Secret)>, Trouble> {
    let entry = Entry::new(service, id).map_err(trouble)?;
    let body = match entry.get_secret() {
        Ok(body) => Secret::from_bytes(body),
        Err(Error::NoEntry) => return Ok(None),
        Err(error) => return Err(trouble(error)),
    };
    let damaged = || Trouble::ThisKey("the keychain's entry for this key is damaged; save the key again".into());
    let mut lines = body.expose_to_net().splitn(3, |byte| *byte == b'\n');
    let (Some(form), Some(bound), Some(key)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(damaged());
    };
    let bound = std::str::from_utf8(bound).map_err(|_| damaged())?;
    let bound = match form {
        form if form == FORM.as_bytes() => Bound::parse(bound),
        form if form == OLD_FORM.as_bytes() => Origin::parse(bound).map(Bound::from),
        _ => return Err(damaged()),
    };
    Ok(Some((bound.map_err(|_| damaged())?, Secret::from_bytes(key.to_vec()))))
}

/// Succeeds when nothing is left under this id, whether or not there was something.
pub(crate) fn erase(service: &str, id: &str) -> Result<(), Trouble> {
    let entry = Entry::new(service, id).map_err(trouble)?;
    match entry.delete_credential() {
        Ok(()) | Err(Error::NoEntry) => Ok(()),
        Err(Error::Ambiguous(entries)) => {
            for entry in entries {
                match entry.delete_credential() {
                    Ok(()) | Err(Error::NoEntry) => {}
                    Err(error) => return Err(trouble(error)),
                }
            }
            Ok(())
        }
        Err(error) => Err(trouble(error)),
    }
}

/// Whether there is a keychain at all. Asks nobody for a password.
pub(crate) fn look(service: &str) -> Result<(), Trouble> {
    Entry::new(service, "probe").map(|_| ()).map_err(trouble)
}

/// Writes, reads back and removes an entry of its own: only a keychain that does all three keeps anything.
pub(crate) fn probe(service: &str) -> Result<(), Trouble> {
    let id = format!("probe-{}", policy::random_hex(8));
    let origin = Origin::parse("http://localhost").map_err(|error| Trouble::Refused(error.to_string()))?;
    let mark = Secret::new("probe".into());
    write(service, &id, &origin.into(), &mark)?;
    let back = read(service, &id);
    erase(service, &id)?;
    match back? {
        Some((_, key)) if key.expose_to_net() == mark.expose_to_net() => Ok(()),
        _ => Err(Trouble::Refused(
            "the keychain does not give back what it was given".into(),
        )),
    }
}
