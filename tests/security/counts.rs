//! What is counted where it arrives: at the model server, on the disk, in the log.

use serde_json::json;
use testkit::wait_for;

use crate::attempt::Came;
use crate::house::{HOLD, House};

/// Requests to the model server other than for its list of models.
fn asked(house: &House) -> usize {
    let seen = house.model.seen();
    seen.iter().filter(|seen| seen.method == "POST").count()
}

/// A call may have 64 model requests open: the rest are refused, and never arrive.
#[test]
fn only_so_many_model_streams_are_open_at_a_time() {
    let house = House::open();
    let code = format!(
        "const all = []; for (let i = 0; i < 70; i++) all.push(host.llm.stream({{ messages: [{{ role: 'user', content: '{HOLD}' }}] }}).result
           .then((r) => r.text ?? r.error, (e) => e.message));
         const said = await Promise.all(all); return [said.filter((one) => one === 'hello').length, said.filter((one) => one !== 'hello')]"
    );
    house.model.forget();
    let came = std::thread::scope(|scope| {
        let call = scope.spawn(|| house.run(&code));
        wait_for("model requests", || (asked(&house) > 0).then_some(()));
        // All that will come has come when nothing has come for a while.
        let mut before = 0;
        wait_for("the last of them", || {
            std::thread::sleep(std::time::Duration::from_millis(700));
            let now = asked(&house);
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        eprintln!("{before} at once");
        house.model.release();
        call.join().unwrap()
    });
    let Came::Value(said) = &came else { panic!("{came:?}") };
    assert_eq!(said[0], json!(64), "{came:?}");
    assert_eq!(asked(&house), 64);
    let refused = said[1].as_array().unwrap();
    assert_eq!(refused.len(), 6);
    for why in refused {
        assert!(why.as_str().unwrap().contains("64"), "{came:?}");
    }
    // Once they are over there is room again.
    let one = "return (await host.llm.stream({ messages: [{ role: 'user', content: 'x' }] }).result).text";
    assert_eq!(house.run(one), Came::Value(json!("hello")));
}

/// A call is passed three times at most, so a plugin that always asks for another pass has its queue performed twice.
#[test]
fn a_queue_without_end_is_performed_twice() {
    let house = House::open();
    let queue = "host.llm.request('k' + Math.random(), { messages: [{ role: 'user', content: 'x' }] }); return { __llmPending: true }";
    house.model.forget();
    let came = house.run(queue);
    assert_eq!(asked(&house), 2, "{came:?}");
    house.model.forget();
    let twin = "if (host.llm.results.k) return host.llm.results.k.text; host.llm.request('k', { messages: [{ role: 'user', content: 'x' }] }); return { __llmPending: true }";
    let came = house.run(twin);
    assert_eq!((came, asked(&house)), (Came::Value(json!("hello")), 1));
}
