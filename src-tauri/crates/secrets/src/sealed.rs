//! The file of keys under a passphrase: Argon2id makes a key of the passphrase, XChaCha20-Poly1305 seals each entry with
//! it. The names of the entries are readable, so that one can be removed while the file is locked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::disk::{self, Private};
use crate::{Bound, Secret};

const FORM: &str = "chrysalis-keys-1";
const KDF: &str = "argon2id";
/// RFC 9106, section 4, the second recommended choice: 64 MiB, 3 passes, 4 lanes.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// What a file may ask for at most, so that a prepared one cannot take all memory or hours: four times the memory and the
/// passes of ours. And at least: a weaker one was not made by us.
const MEMORY_BOUNDS: std::ops::RangeInclusive<u32> = (19 << 10)..=(256 << 10);
const PASSES_BOUNDS: std::ops::RangeInclusive<u32> = 2..=12;
const LANES_BOUNDS: std::ops::RangeInclusive<u32> = 1..=16;
const SALT: usize = 16;
const NONCE: usize = 24;
/// The name of the entry that shows whether a passphrase is right. No key has it: they all have a slash in them or, in
/// tests, a letter first.
const CHECK: &str = "";

/// How the key is made of the passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kdf {
    name: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: String,
}

/// An entry: `nonce` and, sealed, what it is bound to, a line break, and the key. Both in hex.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    nonce: String,
    sealed: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Whole {
    form: String,
    kdf: Kdf,
    check: Entry,
    keys: BTreeMap<String, Entry>,
}

/// Made of the passphrase; wiped when dropped.
type FileKey = Box<Zeroizing<[u8; 32]>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SealedError {
    Wrong,
    Other(String),
}

impl From<String> for SealedError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// A file that was opened with its passphrase.
pub(crate) struct Open {
    kdf: Kdf,
    key: FileKey,
}

/// `keys.enc` of a home.
pub(crate) struct SealedFile {
    path: PathBuf,
}

impl SealedFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        disk::tidy(&path);
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Makes a new, empty file.
    pub(crate) fn make(&self, passphrase: &Secret) -> Result<Open, SealedError> {
        let kdf = Kdf {
            name: KDF.into(),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            lanes: LANES,
            salt: hex::encode(random::<SALT>()?),
        };
        let key = derive(&kdf, passphrase)?;
        let check = seal(&key, &kdf, CHECK, b"")?;
        let whole = Whole {
            form: FORM.into(),
            kdf: kdf.clone(),
            check,
            keys: BTreeMap::new(),
        };
        self.save(&whole)?;
        Ok(Open { kdf, key })
    }

    /// Opens the file that is there.
    pub(crate) fn open(&self, passphrase: &Secret) -> Result<Open, SealedError> {
        let whole = self.load()?.ok_or_else(|| self.missing())?;
        let key = derive(&whole.kdf, passphrase)?;
        unseal(&key, &whole.kdf, CHECK, &whole.check).map_err(|_| SealedError::Wrong)?;
        Ok(Open { kdf: whole.kdf, key })
    }

    /// The names of all entries; none when there is no file.
    pub(crate) fn ids(&self) -> Result<Vec<String>, String> {
        Ok(self
            .load()?
            .map(|whole| whole.keys.into_keys().collect())
            .unwrap_or_default())
    }

    pub(crate) fn get(&self, open: &Open, id: &str) -> Result<Option<(Bound, Secret)>, String> {
        let whole = self.same(open)?;
        let Some(entry) = whole.keys.get(id) else {
            return Ok(None);
        };
        let damaged = || {
            format!(
                "the entry of this key in {} is damaged; save the key again",
                self.path.display()
            )
        };
        let plain = unseal(&open.key, &whole.kdf, id, entry).map_err(|()| damaged())?;
        let mut lines = plain.expose_to_net().splitn(2, |byte| *byte == b'\n');
        let (Some(bound), Some(key)) = (lines.next(), lines.next()) else {
            return Err(damaged());
        };
        let bound = std::str::from_utf8(bound).ok().and_then(|text| Bound::parse(text).ok());
        Ok(Some((bound.ok_or_else(damaged)?, Secret::from_bytes(key.to_vec()))))
    }

    pub(crate) fn put(&self, open: &Open, id: &str, bound: &Bound, key: &Secret) -> Result<(), String> {
        let mut whole = self.same(open)?;
        let mut plain = format!("{bound}\n").into_bytes();
        plain.reserve_exact(key.expose_to_net().len());
        plain.extend_from_slice(key.expose_to_net());
        let plain = Secret::from_bytes(plain);
        let entry = seal(&open.key, &whole.kdf, id, plain.expose_to_net())?;
        whole.keys.insert(id.to_owned(), entry);
        self.save(&whole)
    }

    /// Needs no passphrase. Succeeds when nothing is left under this id.
    pub(crate) fn erase(&self, id: &str) -> Result<(), String> {
        let Some(mut whole) = self.load()? else {
            return Ok(());
        };
        match whole.keys.remove(id) {
            Some(_) => self.save(&whole),
            None => Ok(()),
        }
    }

    pub(crate) fn remove(&self) -> Result<(), String> {
        disk::remove(&self.path)
    }

    fn missing(&self) -> String {
        format!("{} is not there any more", self.path.display())
    }

    /// The file as it is now, which must be the one that was opened.
    fn same(&self, open: &Open) -> Result<Whole, String> {
        let whole = self.load()?.ok_or_else(|| self.missing())?;
        match whole.kdf == open.kdf {
            true => Ok(whole),
            false => Err(format!(
                "{} is not the file that was unlocked: lock it and unlock it again",
                self.path.display()
            )),
        }
    }

    fn load(&self) -> Result<Option<Whole>, String> {
        let Some(bytes) = disk::read(&self.path, Private::Own)? else {
            return Ok(None);
        };
        let wrong = |why: String| format!("{} is no file of keys ({why})", self.path.display());
        let whole: Whole = serde_json::from_slice(bytes.expose_to_net()).map_err(|error| wrong(error.to_string()))?;
        if whole.form != FORM || whole.kdf.name != KDF {
            return Err(wrong("its form is of another version".into()));
        }
        let kdf = &whole.kdf;
        let bounded = MEMORY_BOUNDS.contains(&kdf.memory_kib)
            && PASSES_BOUNDS.contains(&kdf.passes)
            && LANES_BOUNDS.contains(&kdf.lanes)
            && kdf.salt.len() == 2 * SALT;
        match bounded {
            true => Ok(Some(whole)),
            false => Err(wrong("what it asks for to make its key is out of bounds".into())),
        }
    }

    fn save(&self, whole: &Whole) -> Result<(), String> {
        let mut bytes = serde_json::to_vec_pretty(whole).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        disk::write(&self.path, &bytes)
    }
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

fn derive(kdf: &Kdf, passphrase: &Secret) -> Result<FileKey, String> {
    let failed = |why: String| format!("no key could be made of the passphrase: {why}");
    let salt = hex::decode(&kdf.salt).map_err(|error| failed(error.to_string()))?;
    let params = Params::new(kdf.memory_kib, kdf.passes, kdf.lanes, Some(32)).map_err(|e| failed(e.to_string()))?;
    let count = params.block_count();
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(count)
        .map_err(|_| failed("there is too little memory".into()))?;
    memory.resize(count, Block::default());
    let mut key: FileKey = Box::new(Zeroizing::new([0; 32]));
    let made = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into_with_memory(
        passphrase.expose_to_net(),
        &salt,
        key.as_mut_slice(),
        &mut memory,
    );
    // The key follows from the last blocks.
    memory.iter_mut().for_each(Zeroize::zeroize);
    made.map(|()| key).map_err(|error| failed(error.to_string()))
}

/// What an entry is sealed together with: how the key was made, and the entry's name. So neither can be changed, and no
/// entry takes the place of another.
fn associated(kdf: &Kdf, id: &str) -> Vec<u8> {
    format!(
        "{FORM}\n{} {} {} {} {}\n{id}",
        kdf.name, kdf.memory_kib, kdf.passes, kdf.lanes, kdf.salt
    )
    .into_bytes()
}

fn seal(key: &FileKey, kdf: &Kdf, id: &str, plain: &[u8]) -> Result<Entry, String> {
    let nonce = random::<NONCE>()?;
    let sealed = XChaCha20Poly1305::new(Key::from_slice(key.as_slice()))
        .encrypt(
            XNonce::from_slice(&nonce),
            Payload {
                msg: plain,
                aad: &associated(kdf, id),
            },
        )
        .map_err(|_| "the key could not be sealed".to_owned())?;
    Ok(Entry {
        nonce: hex::encode(nonce),
        sealed: hex::encode(sealed),
    })
}

fn unseal(key: &FileKey, kdf: &Kdf, id: &str, entry: &Entry) -> Result<Secret, ()> {
    let nonce = hex::decode(&entry.nonce).map_err(|_| ())?;
    let sealed = hex::decode(&entry.sealed).map_err(|_| ())?;
    if nonce.len() != NONCE {
        return Err(());
    }
    XChaCha20Poly1305::new(Key::from_slice(key.as_slice()))
        .decrypt(
            XNonce::from_slice(&nonce),
            Payload {
                msg: &sealed,
                aad: &associated(kdf, id),
            },
        )
        .map(Secret::from_bytes)
        .map_err(|_| ())
}
