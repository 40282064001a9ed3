//! Ways past what an app may use in a day, and past what its data folder may hold. Each in an app of its own.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::attempt::{Attempt, Came, Want, attempt};
use crate::house::{EVERYTHING, House};

const CONFIG: &str =
    "worker_idle_seconds = 2\n[budgets]\nmodel_calls = 3\nnetwork_bytes = 300000\ndisk_bytes = 1000000\n";
/// Bytes on the disk beyond the limit that rounding up to blocks may make.
const SLACK: u64 = 64 << 10;

pub fn attempts() -> Vec<Attempt> {
    use Want::*;
    // The twin comes first here, and takes one of the three.
    let asked = "return (await host.llm.generate({ messages: [{ role: 'user', content: 'x' }] })).text";
    let model = |name: &str, attack: &str| {
        attempt(
            &format!("a budget: {name}"),
            attack,
            Gives(json!(2)),
            asked,
            json!("hello"),
        )
    };
    let fetched = "return (await host.net.fetch({ url: given.granted + '/hello' })).text";
    let online = |name: &str, attack: &str, want: Want| {
        attempt(&format!("a budget: {name}"), attack, want, fetched, json!("hello"))
    };
    let written = "host.fs.write('small', 'x'); return host.fs.read('small')";
    let disk = |name: &str, attack: &str| {
        attempt(
            &format!("a budget: {name}"),
            attack,
            Says(&["may hold 1000000"]),
            written,
            json!("x"),
        )
    };
    const USED_UP: Want = Says(&["of its 300000 bytes sent and received"]);
    vec![
        model(
            "model requests one after another",
            "let n = 0; for (let i = 0; i < 6; i++) try { const r = await host.llm.generate({ messages: [{ role: 'user', content: 'x' }] }); if (r.text === 'hello') n++ } catch {} return n",
        ),
        model(
            "model requests side by side",
            "const all = await Promise.allSettled(Array.from({ length: 20 }, () => host.llm.generate({ messages: [{ role: 'user', content: 'x' }] })));
             return all.filter((one) => one.value?.text === 'hello').length",
        ),
        model(
            "queued model requests",
            "if (!req.stash) { for (let i = 0; i < 6; i++) host.llm.request('k' + i, { messages: [{ role: 'user', content: 'x' }] }); return kit.raw({ __llmPending: true, stash: 1 }) }
             return Object.values(host.llm.results).filter((one) => one?.text === 'hello').length",
        ),
        model(
            "model requests that are aborted at once",
            "let n = 0; for (let i = 0; i < 6; i++) try { const s = host.llm.stream({ messages: [{ role: 'user', content: 'x' }] });
               for await (const part of s) { n++; break } await s.abort() } catch {} return n",
        ),
        online(
            "an answer without end",
            "const answer = await host.net.fetch({ url: given.granted + '/endless', maxBytes: 20 << 20 }); return String(answer.error)",
            USED_UP,
        ),
        online(
            "an answer without end, streamed",
            "const answer = await host.net.fetch({ url: given.granted + '/endless', stream: true, maxBytes: 20 << 20 });
             return kit.thrown(async () => { for await (const piece of answer.body); })",
            USED_UP,
        ),
        online(
            "answers that are closed after their first piece",
            "for (let i = 0; i < 200; i++) { const answer = await host.net.fetch({ url: given.granted + '/endless', stream: true });
               if (answer.error) return answer.error; try { for await (const piece of answer.body) break } catch (e) { return e.message } } return 'no end'",
            USED_UP,
        ),
        online(
            "answers side by side",
            "const all = await Promise.all(Array.from({ length: 12 }, () => host.net.fetch({ url: given.granted + '/endless', maxBytes: 200000 })));
             return String(all.map((one) => one.error).find((text) => text?.includes('of its')))",
            USED_UP,
        ),
        online(
            "bodies that are sent",
            "let answer; for (let i = 0; i < 4; i++) answer = await host.net.fetch({ url: given.granted + '/hello', method: 'POST', body: 'x'.repeat(100000) }); return String(answer.error)",
            USED_UP,
        ),
        online(
            "headers that are sent",
            "let answer; for (let i = 0; i < 40; i++) answer = await host.net.fetch({ url: given.granted + '/hello', headers: { 'X-A': 'x'.repeat(10000) } }); return String(answer.error)",
            USED_UP,
        ),
        online(
            "addresses that are long",
            "let answer; for (let i = 0; i < 40; i++) answer = await host.net.fetch({ url: given.granted + '/hello?' + 'x'.repeat(10000) }); return String(answer.error)",
            USED_UP,
        ),
        online(
            "queued requests to the network",
            "if (!req.stash) { for (let i = 0; i < 32; i++) host.net.request('k' + i, { url: given.granted + '/endless', maxBytes: 20000 }); return kit.raw({ __llmPending: true, stash: 1 }) }
             return String(Object.values(host.net.results).map((one) => one.error).find((text) => text?.includes('of its')))",
            USED_UP,
        ),
        disk("two large files", "host.fs.write('a', 'x'.repeat(600000)); return kit.thrown(async () => host.fs.write('b', 'x'.repeat(600000)))"),
        disk("pieces that are appended", "return kit.thrown(async () => { for (let i = 0; i < 40; i++) host.fs.append('a', 'x'.repeat(50000)) })"),
        disk(
            "a file that is written piece by piece",
            "return kit.thrown(async () => { const w = host.fs.writer('a'); for (let i = 0; i < 40; i++) await w.write('x'.repeat(50000)); await w.close() })",
        ),
        disk(
            "many writers that are never closed",
            "return kit.thrown(async () => { for (let n = 0; n < 16; n++) { const w = host.fs.writer('a' + n); for (let i = 0; i < 4; i++) await w.write('x'.repeat(50000)) } })",
        ),
        disk("folders without end", "return kit.thrown(async () => { for (let i = 0; i < 3000; i++) host.fs.mkdir('d/' + i) })"),
        disk("empty files without end", "return kit.thrown(async () => { for (let i = 0; i < 3000; i++) host.fs.write('f/' + i, '') })"),
        disk("records without end", "return kit.thrown(async () => { for (let i = 0; i < 3000; i++) host.fs.lookup('people', 'k' + i, { n: i }) })"),
        disk(
            "a transaction",
            "return kit.thrown(() => host.fs.transaction(async (fs) => { for (let i = 0; i < 40; i++) fs.write('t' + i, 'x'.repeat(50000)) }))",
        ),
        disk(
            "transactions that are undone",
            "for (let n = 0; n < 5; n++) try { await host.fs.transaction(async (fs) => { fs.write('t', 'x'.repeat(800000)); throw new Error('undo') }) } catch {}
             if (host.fs.exists('t')) return 'it stayed'; host.fs.write('t', 'x'.repeat(800000)); return kit.thrown(async () => host.fs.write('u', 'x'.repeat(800000)))",
        ),
        disk(
            "files that are moved about",
            "host.fs.write('a', 'x'.repeat(600000)); host.fs.rename('a', 'b'); return kit.thrown(async () => host.fs.write('a', 'x'.repeat(600000)))",
        ),
        disk(
            "calls side by side",
            "const all = await Promise.all(Array.from({ length: 12 }, (_, n) => kit.thrown(async () => { const w = host.fs.writer('p' + n); await w.write('x'.repeat(300000)); await w.close(); return '' })));
             return String(all.find((text) => text.includes('may hold')))",
        ),
    ]
}

fn size(folder: &Path) -> u64 {
    testkit::folders::files(folder)
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|file| file.len())
        .sum()
}

#[test]
fn budgets_hold() {
    let house = House::configured(CONFIG);
    let mut wrong = Vec::new();
    for (n, one) in attempts().iter().enumerate() {
        let app = format!("budget{n}");
        house.add(&app, &["p"], EVERYTHING);
        let twin = house.run_as(&app, "p", &one.twin);
        if twin != Came::Value(one.good.clone()) {
            wrong.push(format!("{}: its twin gave {twin:?}", one.name));
        }
        let came = house.run_as(&app, "p", &one.attack);
        if !one.want.fits(&came) {
            wrong.push(format!("{}: wanted {:?}, got {came:?}", one.name, one.want));
        }
        wrong.extend(house.harm(&came).map(|harm| format!("{}: {harm}", one.name)));
        let held = size(&house.data(&app));
        if held > 1_000_000 + SLACK {
            wrong.push(format!("{}: the data folder holds {held} bytes", one.name));
        }
    }
    // One app's use is not another's.
    house.add("fresh", &["p"], EVERYTHING);
    for one in attempts() {
        if one.name.contains("one after another")
            || one.name.contains("without end, streamed")
            || one.name.contains("moved")
        {
            let twin = house.run_as("fresh", "p", &one.twin);
            assert_eq!(twin, Came::Value(one.good), "{}", one.name);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        attempts().len(),
        wrong.join("\n")
    );
}
