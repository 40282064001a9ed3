//! The fuzz targets of `fuzz/` without cargo-fuzz: every file of the corpus, and then for some seconds inputs made of
//! them by a mutator with a fixed seed. A failure names the input as hex, and running the test again finds it again.

#[path = "../fuzz/src/answers.rs"]
mod answers;
#[path = "../fuzz/src/frames.rs"]
mod frames;
#[path = "../fuzz/src/host_patterns.rs"]
mod host_patterns;
#[path = "../fuzz/src/json_lines.rs"]
mod json_lines;
#[path = "../fuzz/src/manifests.rs"]
mod manifests;
#[path = "../fuzz/src/png_text.rs"]
mod png_text;
#[path = "../fuzz/src/sse.rs"]
mod sse;
#[path = "../fuzz/src/zip_directory.rs"]
mod zip_directory;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each target gets for changed inputs, and how many it gets at least however slow the machine is.
const TIME: Duration = Duration::from_secs(3);
const AT_LEAST: u64 = 2000;

/// Longest input, as in the runs with cargo-fuzz.
const MAX_LEN: usize = 4096;

/// xorshift64* (Vigna 2014): small, and the same on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
}

/// Changes some bytes, lengths or pieces of an input, or takes a piece of another one.
fn mutate(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    const ODD: [&[u8]; 8] = [
        b"\0",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"../",
        b"\"",
        b"[[[[",
    ];
    for _ in 0..=chance.below(6) {
        let at = chance.below(input.len() + 1);
        let len = chance.below(16).min(input.len() - at);
        match chance.below(7) {
            0 if at < input.len() => input[at] ^= 1 << chance.below(8),
            1 if at < input.len() => input[at] = chance.next() as u8,
            2 => drop(input.drain(at..at + len)),
            3 => {
                let piece = input[at..at + len].to_vec();
                input.splice(at..at, piece);
            }
            4 => drop(input.splice(at..at, ODD[chance.below(ODD.len())].iter().copied())),
            5 => {
                let odd = ODD[chance.below(ODD.len())];
                let end = (at + odd.len()).min(input.len());
                input.splice(at..end, odd.iter().copied());
            }
            _ => {
                let from = chance.below(other.len() + 1);
                let to = from + chance.below(64).min(other.len() - from);
                input.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    input.truncate(MAX_LEN);
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the target has a corpus")
        .map(|entry| entry.expect("its folder can be read").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a file of it can be read"))
        .collect()
}

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(corpus.len() >= 10, "the corpus of {target} is gone");
    let one = |input: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
            panic!(
                "{target} fails on {}",
                input.iter().map(|b| format!("{b:02x}")).collect::<String>()
            );
        }
    };
    corpus.iter().for_each(|input| one(input));
    let mut chance = Chance(0x5eed_0003);
    let until = Instant::now() + TIME;
    let mut runs = 0;
    while runs < AT_LEAST || Instant::now() < until {
        let mut input = corpus[chance.below(corpus.len())].clone();
        let other = &corpus[chance.below(corpus.len())];
        mutate(&mut input, other, &mut chance);
        one(&input);
        runs += 1;
    }
    println!("{target}: {} files, {runs} changed inputs", corpus.len());
}

#[test]
fn frames_of_the_worker_protocol() {
    replay("frames", frames::run);
}

#[test]
fn host_patterns_against_a_slow_reading() {
    replay("host_patterns", host_patterns::run);
}

#[test]
fn manifests_of_apps_and_plugins() {
    replay("manifests", manifests::run);
}

#[test]
fn zip_directories() {
    replay("zip_directory", zip_directory::run);
}

#[test]
fn text_in_png_pictures() {
    replay("png_text", png_text::run);
}

#[test]
fn answers_of_model_servers() {
    replay("answers", answers::run);
}

#[test]
fn streams_of_events() {
    replay("sse", sse::run);
}

#[test]
fn json_one_after_another() {
    replay("json_lines", json_lines::run);
}

/// A target that cannot fail keeps nothing: each of these breaks a promise that its target looks at.
#[test]
fn self_test_a_broken_promise_is_noticed() {
    let broken: fn(&[u8]) = |bytes| assert!(!bytes.starts_with(b"PK"), "as a target fails");
    assert!(catch_unwind(|| replay("zip_directory", broken)).is_err());
}
