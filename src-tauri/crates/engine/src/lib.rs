//! Puts the rooms together: opens a home and answers `/v1`.
