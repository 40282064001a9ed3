use policy::CodeHash;
use sha2::{Digest, Sha256};

/// The hash a grant names: over every file a plugin loads, its manifest among them, so that a plugin which changes what
/// it asks for is other code too.
///
/// SHA-256 over a fixed text that keeps it apart from every other hash here, then for each file the length and bytes of
/// its name and the length and bytes of its content (lengths as 64 bits, little endian), in the order given. Give them
/// sorted by name.
pub fn code_hash<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> CodeHash {
    let mut hash = Sha256::new_with_prefix(b"chrysalis plugin code 1\0");
    for (name, bytes) in files {
        add(&mut hash, name.as_bytes());
        add(&mut hash, bytes);
    }
    CodeHash(hash.finalize().into())
}

/// The hash a person's "yes" to adding an app names: SHA-256 over the sorted relative paths, each with the SHA-256 of
/// its file, as the contract's code hash (section 2), but leaving nothing out of what would be written. 64 hex digits.
pub fn content_hash<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_unstable_by_key(|(path, _)| *path);
    let mut hash = Sha256::new_with_prefix(b"chrysalis app content 1\0");
    for (path, bytes) in files {
        add(&mut hash, path.as_bytes());
        hash.update(Sha256::digest(bytes));
    }
    hex::encode(hash.finalize())
}

fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sets_of_files_run_together() {
        let sets: [&[(&str, &[u8])]; 6] = [
            &[("a", b"bc")],
            &[("ab", b"c")],
            &[("a", b"b"), ("c", b"")],
            &[("a", b""), ("b", b"c")],
            &[("a", b"bc"), ("", b"")],
            &[],
        ];
        for (i, one) in sets.iter().enumerate() {
            for other in &sets[i + 1..] {
                assert_ne!(
                    code_hash(one.iter().copied()),
                    code_hash(other.iter().copied()),
                    "{one:?} {other:?}"
                );
                assert_ne!(
                    content_hash(one.iter().copied()),
                    content_hash(other.iter().copied()),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn order_of_an_apps_files_does_not_matter() {
        let files: [(&str, &[u8]); 2] = [("b", b"2"), ("a", b"1")];
        let turned: [(&str, &[u8]); 2] = [("a", b"1"), ("b", b"2")];
        assert_eq!(content_hash(files), content_hash(turned));
    }
}
