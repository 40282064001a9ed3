//! What a plugin's model requests may hold in memory before they are sent.

mod host_kit;

use host_kit::House;
use policy::Capability;
use sandbox::Host;
use serde_json::json;

#[tokio::test]
async fn open_and_queued_requests_share_their_room() {
    let house = House::new();
    house.grant("code", &[(Capability::Llm, &[])]);
    let host = house.host("code");

    let large = json!({"messages": [{"role": "user", "content": "x".repeat(12 << 20)}]});
    let first = host.call("llm.open", json!([large])).await.unwrap();
    host.call_now("llm.request", json!(["a", large])).unwrap();
    let full = host.call("llm.open", json!([large])).await.unwrap_err();
    assert!(full.contains("32 MiB"), "{full}");
    let full = host.call_now("llm.request", json!(["b", large])).unwrap_err();
    assert!(full.contains("32 MiB"), "{full}");
    assert!(host.call_now("llm.request", json!(["c", {"messages": []}])).is_ok());

    // Room comes back with the end of an open request, and when the queue is taken.
    host.call("llm.rest", json!([first])).await.unwrap();
    host.call_now("llm.request", json!(["b", large])).unwrap();
    assert_eq!(host.take_queue().len(), 3);
    host.call("llm.open", json!([large])).await.unwrap();
}
