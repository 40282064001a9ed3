//! `host.fs` through a real worker, on a real folder.

mod host_kit;

use std::os::unix::fs::symlink;

use host_kit::{House, THROWN, png};
use policy::{AppId, Capability};
use serde_json::{Value, json};

const FS: &[(Capability, &[&str])] = &[(Capability::Fs, &[])];

fn says(value: &Value, part: &str) {
    assert!(
        value.as_str().is_some_and(|text| text.contains(part)),
        "{value} should say: {part}"
    );
}

#[tokio::test]
async fn the_contracts_methods_do_what_it_says() {
    let house = House::new();
    let body = format!(
        "{THROWN}const fs = host.fs;
        fs.write('a/b/c.txt', 'grün');
        fs.mkdir('x/y'); fs.mkdir('x/y');
        return {{
            text: fs.read('a/b/c.txt'), base64: fs.readBase64('./a/b/c.txt'), top: fs.list(), in: fs.list('a/b'),
            missing: await thrown(() => fs.read('none.txt')), missing64: await thrown(() => fs.readBase64('none.txt')),
            folder: await thrown(() => fs.read('a')),
            gone: [fs.remove('none'), fs.remove('x'), fs.list('.')],
            root: [await thrown(() => fs.remove('.')), await thrown(() => fs.remove('')), await thrown(() => fs.remove('/'))],
            kinds: [await thrown(() => fs.write('n', 5)), await thrown(() => fs.read(5)), await thrown(() => fs.write(null, ''))],
        }};"
    );
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    assert_eq!((&got["text"], &got["base64"]), (&json!("grün"), &json!("Z3LDvG4=")));
    assert_eq!((&got["top"], &got["in"]), (&json!(["a", "x"]), &json!(["c.txt"])));
    for error in [&got["missing"], &got["missing64"]] {
        says(error, "does not exist");
    }
    says(&got["folder"], "is a folder");
    assert_eq!(got["gone"], json!([null, null, ["a"]]));
    for error in got["root"].as_array().unwrap() {
        says(error, "host.fs.remove");
    }
    for error in got["kinds"].as_array().unwrap() {
        says(error, "must be a string");
    }
    assert_eq!(std::fs::read_to_string(house.path("a/b/c.txt")).unwrap(), "grün");
}

#[tokio::test]
async fn nothing_leads_out_and_errors_name_no_machine_path() {
    let house = House::new();
    house
        .does(FS, "host.fs.write('a.txt', 'x')", json!(null))
        .await
        .unwrap();
    let secret = house.folder.path().join("secret.txt");
    std::fs::write(&secret, "secret").unwrap();
    symlink(&secret, house.path("link.txt")).unwrap();
    symlink(house.folder.path().join("none"), house.path("dangling")).unwrap();
    symlink(house.folder.path(), house.path("out")).unwrap();
    std::fs::hard_link(&secret, house.path("hard.txt")).unwrap();
    let paths = json!([
        "../secret.txt",
        "/etc/passwd",
        "a/../../secret.txt",
        "link.txt",
        "dangling",
        "out/secret.txt",
        "hard.txt",
        "a\\..\\b",
        "a\u{0}b",
        "C:x",
        "CON",
        "a//b",
        "x.",
        "x "
    ]);
    let body = format!(
        "{THROWN}const fs = host.fs; const all = [];
        for (const p of given) for (const [name, what] of Object.entries({{
            read: () => fs.read(p), readBase64: () => fs.readBase64(p), readChunk: () => fs.readChunk(p, 0, 9),
            write: () => fs.write(p, 'pwned'), bytes: () => fs.writeBytes(p, new Uint8Array(3)),
            append: () => fs.append(p, 'pwned'), writer: async () => {{ const w = fs.writer(p); await w.write('pwned'); await w.close() }},
            stream: async () => {{ for await (const chunk of fs.stream(p)) return chunk }},
            below: () => fs.write(p + '/below', 'pwned'), mkdir: () => fs.mkdir(p + '/below'),
            renameTo: () => fs.rename('a.txt', p + '/below'),
        }})) {{ all.push([p, name, await thrown(what)]) }}
        return all;"
    );
    let got = house.does(FS, &body, paths).await.unwrap();
    let machine = house.folder.path().to_str().unwrap();
    for tried in got.as_array().unwrap() {
        let error = tried[2].as_str().unwrap_or_else(|| panic!("{tried} went through"));
        assert!(!error.contains(machine) && !error.contains("secret\""), "{tried}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    let twin = house
        .does(FS, "return host.fs.read('a.txt')", json!(null))
        .await
        .unwrap();
    assert_eq!(twin, "x");
}

#[tokio::test]
async fn what_the_contract_lacks() {
    let house = House::new();
    let body = format!(
        "{THROWN}const fs = host.fs;
        fs.writeBytes('bin', new Uint8Array([0, 255, 128]));
        fs.writeBytes('view', new Uint16Array([1, 2]));
        fs.append('log', 'one\\n'); fs.append('log', new Uint8Array([116, 119, 111]));
        fs.write('old', 'x'); fs.rename('old', 'deep/new');
        const stat = fs.stat('bin'), folder = fs.stat('deep');
        return {{
            bytes: [...fs.readBytes('bin')], view: [...fs.readBytes('view')], log: fs.read('log'),
            chunk: [...fs.readChunk('log', 2, 3)], beyond: fs.readChunk('log', 99, 3).length,
            exists: [fs.exists('bin'), fs.exists('old'), fs.exists('deep/new')],
            stat: [stat.kind, stat.size, Math.abs(Date.now() - stat.modified) < 60000, folder.kind, folder.size],
            errors: [await thrown(() => fs.stat('none')), await thrown(() => fs.readChunk('log', -1, 1)),
                await thrown(() => fs.readChunk('log', 0, 1e9)), await thrown(() => fs.append('log', 5)),
                await thrown(() => fs.rename('none', 'b')), await thrown(() => fs.writeBytes('b', 'text'))],
        }};"
    );
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    assert_eq!(
        (&got["bytes"], &got["view"]),
        (&json!([0, 255, 128]), &json!([1, 0, 2, 0]))
    );
    assert_eq!(
        (&got["log"], &got["chunk"], &got["beyond"]),
        (&json!("one\ntwo"), &json!([101, 10, 116]), &json!(0))
    );
    assert_eq!(got["exists"], json!([true, false, true]));
    assert_eq!(got["stat"], json!(["file", 3, true, "folder", 0]));
    assert!(got["errors"].as_array().unwrap().iter().all(Value::is_string), "{got}");
}

#[tokio::test]
async fn large_files_in_pieces() {
    let house = House::new();
    let body = format!(
        "{THROWN}const fs = host.fs;
        const w = fs.writer('big.bin');
        const piece = new Uint8Array(1 << 20).fill(7);
        for (let i = 0; i < 12; i++) {{ piece[0] = i; await w.write(piece); }}
        await w.write('end');
        const before = fs.exists('big.bin');
        await w.close();
        let bytes = 0, firsts = [];
        for await (const chunk of fs.stream('big.bin', {{ chunkBytes: 1 << 20 }})) {{ bytes += chunk.length; firsts.push(chunk[0]); }}
        const gone = fs.writer('gone'); await gone.write('x'); await gone.abort();
        return {{ before, bytes, size: fs.stat('big.bin').size, firsts: firsts.slice(10), gone: fs.exists('gone'),
            list: fs.list(), after: await thrown(() => gone.write('x')), closed: await thrown(() => w.close()),
            whole: await thrown(() => fs.readBase64('huge.bin')), half: await thrown(() => fs.readBase64('half.bin')),
            alive: fs.exists('half.bin') }};"
    );
    std::fs::create_dir_all(house.path("")).unwrap();
    std::fs::File::create(house.path("half.bin"))
        .unwrap()
        .set_len(60 << 20)
        .unwrap();
    std::fs::File::create(house.path("huge.bin"))
        .unwrap()
        .set_len((64 << 20) + 1)
        .unwrap();
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    let size = (12 << 20) + 3;
    assert_eq!(
        (&got["before"], &got["bytes"], &got["size"]),
        (&json!(false), &json!(size), &json!(size))
    );
    assert_eq!(got["firsts"], json!([10, 11, 101]));
    assert_eq!(
        (&got["gone"], &got["list"]),
        (&json!(false), &json!(["big.bin", "half.bin", "huge.bin"]))
    );
    says(&got["after"], "no such writer");
    says(&got["closed"], "no such writer");
    says(&got["whole"], "larger than");
    assert!(
        got["half"].is_string() && got["alive"] == true,
        "more than a message holds is an error, not the end: {got}"
    );

    // A writer that nobody closed leaves nothing.
    house
        .does(
            FS,
            "const w = host.fs.writer('left'); await w.write('x'); return 1",
            json!(null),
        )
        .await
        .unwrap();
    let list = house.does(FS, "return host.fs.list()", json!(null)).await.unwrap();
    assert_eq!(list, json!(["big.bin", "half.bin", "huge.bin"]));
}

#[tokio::test]
async fn transactions_undo_everything() {
    let house = House::new();
    let body = format!(
        "{THROWN}const fs = host.fs;
        fs.write('a', 'old'); fs.write('b', 'keep'); fs.write('dir/c', 'c');
        const error = await thrown(() => fs.transaction(async (tx) => {{
            tx.write('a', 'new'); tx.remove('dir'); tx.rename('b', 'moved'); tx.append('log', 'x'); tx.mkdir('made');
            const w = tx.writer('piece'); await w.write('x'); await w.close();
            host.fs.write('direct', 'x');
            if (fs.read('a') !== 'new' || fs.exists('dir')) throw new Error('not seen inside');
            await host.sleep(1);
            throw new Error('undo');
        }}));
        const undone = [fs.list(), fs.read('a'), fs.read('b'), fs.read('dir/c')];
        const value = await fs.transaction(async (tx) => {{ tx.write('a', 'kept'); tx.remove('b'); return 5; }});
        const nested = await thrown(() => fs.transaction(() => fs.transaction(() => 1)));
        return {{ error, undone, value, now: [fs.list(), fs.read('a')], nested }};"
    );
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    assert_eq!(got["error"], "undo");
    assert_eq!(got["undone"], json!([["a", "b", "dir"], "old", "keep", "c"]));
    assert_eq!(
        (&got["value"], &got["now"]),
        (&json!(5), &json!([["a", "dir"], "kept"]))
    );
    says(&got["nested"], "open already");

    // One that its call never ended is undone with the call, and does not keep others out.
    house
        .does(FS, "host.fs.transaction(async (tx) => { tx.write('a', 'half'); await new Promise(() => {}) }); await host.sleep(50)", json!(null))
        .await
        .unwrap();
    let after = house
        .does(FS, "host.fs.write('z', '1'); return host.fs.read('a')", json!(null))
        .await
        .unwrap();
    assert_eq!(after, "kept");
}

#[tokio::test]
async fn records_are_found_whatever_the_case_of_their_key() {
    let house = House::new();
    let body = format!(
        "{THROWN}const {{ lookup }} = host.fs;
        return [lookup('cards', 'Ärger/../x'), lookup('cards', 'Ärger/../x', {{ n: 1 }}), lookup('cards', 'ärger/../X'),
            lookup('other', 'Ärger/../x'), lookup('cards', 'null', null), lookup('cards', 'null'),
            await thrown(() => lookup('no/no', 'k')), await thrown(() => lookup('', 'k')), await thrown(() => lookup('c', 5)),
            await thrown(() => lookup('c', 'k', 'x'.repeat(4095))), lookup('c', 'k', 'x'.repeat(4094)), host.fs.list('__lookup')]"
    );
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    assert_eq!(
        got.as_array().unwrap()[..6],
        [
            json!(null),
            json!(null),
            json!({"n": 1}),
            json!(null),
            json!(null),
            json!(null)
        ]
    );
    says(&got[6], "the collection must be");
    says(&got[7], "the collection must be");
    says(&got[8], "the key must be a string");
    says(&got[9], "4096 bytes");
    assert_eq!((&got[10], &got[11]), (&json!(null), &json!(["c", "cards"])));
    // SHA-256 of the lower-cased key, as the contract names the files.
    use sha2::Digest;
    let hash = hex::encode(sha2::Sha256::digest("ärger/../x"));
    assert!(house.path(&format!("__lookup/cards/{hash}.json")).exists());
}

#[tokio::test]
async fn pictures_are_kept_by_content_without_their_text() {
    use base64::Engine as _;
    let house = House::new();
    let uri =
        |bytes: &[u8], kind: &str| format!("data:{kind};base64,{}", base64::prelude::BASE64_STANDARD.encode(bytes));
    let (plain, secret) = (png(&[]), png(&[("chara", "secret card")]));
    let given = json!([
        uri(&plain, "image/png"),
        uri(&secret, "image/webp"),
        uri(b"<svg/>", "image/svg+xml"),
        "data:text/html,x",
        5
    ]);
    let body = format!(
        "{THROWN}const all = []; for (const p of given) {{ let u = null; all.push([await thrown(() => {{ u = host.fs.media(p) }}), u]) }} return all"
    );
    let got = house.does(FS, &body, given).await.unwrap();
    let url = got[0][1].as_str().unwrap();
    assert!(
        url.starts_with("/v1/apps/alpha/__media/") && url.ends_with(".png"),
        "{url}"
    );
    assert_eq!(got[0], got[1], "the same picture, told by its content");
    for bad in 2..5 {
        says(&got[bad][0], "host.fs.media");
    }
    let name = url.rsplit('/').next().unwrap();
    assert_eq!(std::fs::read(house.path("__media").join(name)).unwrap(), plain);
    assert_eq!(std::fs::read_dir(house.path("__media")).unwrap().count(), 1);
}

#[tokio::test]
async fn the_disk_budget_is_asked_before_writing() {
    let mut house = House::new();
    house.limits.disk_bytes = Some(1 << 20);
    let body = format!(
        "{THROWN}const fs = host.fs; const most = 'x'.repeat(900 << 10), more = 'x'.repeat(200 << 10);
        fs.write('a', most);
        const errors = [await thrown(() => fs.write('b', more)), await thrown(() => fs.append('a', more)),
            await thrown(() => fs.writeBytes('b', new Uint8Array(200 << 10))),
            await thrown(async () => {{ const w = fs.writer('b'); await w.write(more); }})];
        fs.write('a', most);
        const files = fs.list();
        fs.remove('a');
        fs.write('b', more);
        return {{ errors, files }};"
    );
    let got = house.does(FS, &body, json!(null)).await.unwrap();
    for error in got["errors"].as_array().unwrap() {
        says(error, "may hold 1048576");
    }
    assert_eq!(got["files"], json!(["a"]), "rewriting what is there already is no more");

    // Calls side by side cannot pass it together.
    house.does(FS, "host.fs.remove('b')", json!(null)).await.unwrap();
    let source = "export function run(n, host) { try { host.fs.write('f' + n, 'x'.repeat(300 << 10)); return 1 } catch { return 0 } }";
    house.grant(source, FS);
    let calls = (0..12).map(|n| house.run(source, json!(n)));
    let written: u64 = futures::future::join_all(calls)
        .await
        .into_iter()
        .map(|done| done.unwrap().as_u64().unwrap())
        .sum();
    assert_eq!(written, 3);
}

#[tokio::test]
async fn a_plugin_that_belongs_to_no_app_has_no_folder() {
    let mut house = House::new();
    house.app = AppId::shelf();
    house.data = None;
    let body = format!("{THROWN}return await thrown(() => host.fs.list())");
    says(&house.does(FS, &body, json!(null)).await.unwrap(), "belongs to no app");
}
