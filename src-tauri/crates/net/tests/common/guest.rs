//! A guest that asks: what it was granted, and requests in its name.

use std::sync::Arc;

use net::{Fetch, FetchResult, Granted, HeaderOut, HostPattern, Net, NetError, Reach, Spend};
use policy::{CallContext, Caller};
use secrets::{KeyHandle, Keychain, Origin, Secret, Vault};

use super::{Memory, Names, Server};

pub fn context() -> CallContext {
    CallContext::root(&Caller::Nobody)
}

pub fn patterns(texts: &[&str]) -> Arc<[HostPattern]> {
    texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
}

pub fn granted(hosts: &[&str], local: &[&str]) -> Reach {
    Reach::Granted(Granted {
        hosts: patterns(hosts),
        local: patterns(local),
        also: vec![],
    })
}

pub fn free() -> Spend {
    Arc::new(|_| Ok(()))
}

pub fn get(url: impl Into<String>, reach: &Reach) -> Fetch {
    Fetch::get(url, reach.clone(), "test", free())
}

pub fn secret(origin: &str, value: &str) -> (Vault, KeyHandle) {
    let vault = Vault::open(Keychain::None, "test");
    let origin = Origin::parse(origin).unwrap();
    vault.put("c", origin.clone(), Secret::new(value.into())).unwrap();
    let handle = vault.handle("c", &origin).unwrap();
    (vault, handle)
}

pub fn with(handle: &KeyHandle, name: &str, prefix: &str) -> (String, HeaderOut) {
    let secret = HeaderOut::Secret {
        handle: handle.clone(),
        prefix: prefix.into(),
    };
    (name.into(), secret)
}

pub fn text(name: &str, value: &str) -> (String, HeaderOut) {
    (name.into(), HeaderOut::Text(value.into()))
}

pub async fn failure(net: &Net, fetch: Fetch) -> NetError {
    match net.fetch(&context(), fetch).await {
        Err(error) => error,
        Ok(answer) => panic!("was not refused: {answer:?}"),
    }
}

pub async fn success(net: &Net, fetch: Fetch) -> FetchResult {
    match net.fetch(&context(), fetch).await {
        Ok(answer) => answer,
        Err(error) => panic!("{error}"),
    }
}

/// A net whose names `a.lan`, `b.lan` and `c.lan` are this machine, with a log.
pub fn home() -> (Net, Arc<Memory>) {
    let log = Arc::new(Memory::default());
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    let names = Names::new(&[
        ("a.lan", here),
        ("b.lan", here),
        ("c.lan", here),
        ("public.example", here),
    ]);
    (Net::with_resolver(log.clone(), names), log)
}

/// A server whose answers may name its own port.
pub async fn own_port(answer: impl Fn(&str, u16) -> String + Send + Sync + 'static) -> Server {
    let port = Arc::new(std::sync::OnceLock::new());
    let known = port.clone();
    let server = Server::paths(move |path| answer(path, *known.get().unwrap())).await;
    port.set(server.port()).unwrap();
    server
}
