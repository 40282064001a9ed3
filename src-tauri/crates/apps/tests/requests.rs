//! What a plugin's model requests may hold in memory before they are sent.

use std::sync::Arc;

use apps::host::{Beyond, Generation, GuestHost, Part};
use db::Db;
use policy::{AccountId, AppId, CallContext, Caller, Capability, PluginId};
use sandbox::Host;
use serde_json::{Value, json};

struct Model;

struct Said;

#[async_trait::async_trait]
impl Generation for Said {
    async fn next(&mut self) -> Part {
        Part::Done(json!({"text": "said"}))
    }
    fn abort(&self) {}
}

impl Beyond for Model {
    fn generate(&self, _: &CallContext, _: Value) -> Result<Box<dyn Generation>, String> {
        Ok(Box::new(Said))
    }
    fn refused(&self, _: &CallContext, _: &str, _: &str) {}
    fn logged(&self, _: &CallContext, _: &str, _: &str) {}
}

#[tokio::test]
async fn open_and_queued_requests_share_their_room() {
    let folder = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
    let account = AccountId::random();
    db.add_account(&account, "zoe", "admin").unwrap();
    let (app, plugin) = (AppId::parse("alpha").unwrap(), PluginId::parse("p").unwrap());
    let code = apps::code::code_hash([("plugin.js", b"code".as_slice())]);
    db.decide(
        &account,
        &app,
        &plugin,
        code,
        &[(Capability::Llm, vec![])],
        &[],
        "owner",
    )
    .unwrap();
    let caller = Caller::Plugin { account, app, plugin };
    let host = GuestHost::new(db, Arc::new(Model), CallContext::root(&caller), code);

    let large = json!({"messages": [{"role": "user", "content": "x".repeat(12 << 20)}]});
    let first = host.call("llm.open", json!([large])).await.unwrap();
    host.call_now("llm.request", json!(["a", large])).unwrap();
    let full = host.call("llm.open", json!([large])).await.unwrap_err();
    assert!(full.contains("32 MiB"), "{full}");
    let full = host.call_now("llm.request", json!(["b", large])).unwrap_err();
    assert!(full.contains("32 MiB"), "{full}");
    assert!(host.call_now("llm.request", json!(["c", {"messages": []}])).is_ok());

    // Room comes back with the end of an open request, and when the queue is taken.
    host.call("llm.next", json!([first])).await.unwrap();
    host.call_now("llm.request", json!(["b", large])).unwrap();
    assert_eq!(host.take_queue().len(), 3);
    host.call("llm.open", json!([large])).await.unwrap();
}
