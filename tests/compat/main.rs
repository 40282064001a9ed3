//! Section 3 of the reference engine's contract, rule by rule: plugins written from its text alone (`plugins/<rule>/`), run
//! by the built program, and, where a rule can be seen there, once more in the last of three passes.

mod bytes;
mod entries;
mod environment;
mod exports;
mod hooks;
mod host;
mod house;
mod routes;
mod tools;
mod two_phase;
