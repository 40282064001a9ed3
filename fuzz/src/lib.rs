//! What each target does with its bytes. The same files are part of `tests/fuzz_corpus.rs` in the main workspace, which
//! runs them over the corpus without cargo-fuzz.

#[cfg(feature = "answers")]
pub mod answers;
#[cfg(feature = "frames")]
pub mod frames;
#[cfg(feature = "host_patterns")]
pub mod host_patterns;
#[cfg(feature = "json_lines")]
pub mod json_lines;
#[cfg(feature = "manifests")]
pub mod manifests;
#[cfg(feature = "png_text")]
pub mod png_text;
#[cfg(feature = "sse")]
pub mod sse;
#[cfg(feature = "zip_directory")]
pub mod zip_directory;
