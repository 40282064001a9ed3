//! `host.zip` through a real worker.

mod host_kit;

use std::sync::Arc;

use host_kit::{House, THROWN, png, zip};
use policy::Capability;
use sandbox::Limits;
use serde_json::{Value, json};

const ZIP: &[(Capability, &[&str])] = &[(Capability::Zip, &[])];

fn house(entries: &[(&str, &[u8])]) -> House {
    let mut house = House::new();
    house.archive = Some(Arc::new(zip(entries)));
    house.call = Limits::zip();
    house
}

fn says(value: &Value, part: &str) {
    assert!(
        value.as_str().is_some_and(|text| text.contains(part)),
        "{value} should say: {part}"
    );
}

#[tokio::test]
async fn entries_are_what_the_contract_says() {
    let large = vec![b'x'; 3 << 20];
    let huge = vec![0u8; (16 << 20) + 1];
    let house = house(&[
        ("card.json", b"{\"a\":1}"),
        ("dir/note.TXT", "grün".as_bytes()),
        ("pic.bin", &[0, 255]),
        ("large.txt", &large),
        ("huge.bin", &huge),
        ("../out.txt", b"out"),
    ]);
    let body = "const e = host.zip.entries(); return { count: host.zip.list(), names: host.zip.names().sort(), keys: Object.keys(e).sort(),
        card: e['card.json'], note: e['dir/note.TXT'], pic: e['pic.bin'], large: [e['large.txt'].__b64__, e['large.txt'].size],
        huge: e['huge.bin'] }";
    let got = house.does(ZIP, body, json!(null)).await.unwrap();
    assert_eq!(got["count"], 5, "the one that leads out is dropped");
    assert_eq!(
        (&got["names"], &got["keys"]),
        (
            &got["keys"],
            &json!(["card.json", "dir/note.TXT", "huge.bin", "large.txt", "pic.bin"])
        )
    );
    assert_eq!((&got["card"], &got["note"]), (&json!("{\"a\":1}"), &json!("grün")));
    assert_eq!(got["pic"], json!({"__b64__": true, "base64": "AP8=", "size": 2}));
    assert_eq!(got["large"], json!([true, 3 << 20]));
    assert_eq!(got["huge"], json!({"__binary__": true, "size": (16 << 20) + 1}));
}

#[tokio::test]
async fn single_entries_and_pieces() {
    let long: Vec<u8> = (0..1_000_000u32).map(|i| (i / 1000) as u8).collect();
    let house = house(&[("a.txt", "grün".as_bytes()), ("b", &[0xff, 0]), ("long", &long)]);
    let body = format!(
        "{THROWN}const z = host.zip;
        let bytes = 0, sum = 0;
        for await (const chunk of z.stream('long', {{ chunkBytes: 70000 }})) {{ bytes += chunk.length; sum += chunk[0]; }}
        return {{
            text: z.read('a.txt'), bytes: [...z.readBytes('b')], stat: z.stat('long'), none: z.stat('none'),
            streamed: bytes, chunk: [...z.readChunk('long', 1500, 2)], back: [...z.readChunk('long', 0, 1)],
            beyond: z.readChunk('long', 5000000, 4).length,
            errors: [await thrown(() => z.read('none')), await thrown(() => z.read('b')), await thrown(() => z.read(5)),
                await thrown(() => z.readChunk('long', 0, 1e9)), await thrown(() => z.image('a.txt'))],
        }};"
    );
    let got = house.does(ZIP, &body, json!(null)).await.unwrap();
    assert_eq!((&got["text"], &got["bytes"]), (&json!("grün"), &json!([255, 0])));
    assert_eq!(
        (&got["stat"]["kind"], &got["stat"]["size"]),
        (&json!("file"), &json!(1_000_000))
    );
    assert_eq!((&got["none"], &got["streamed"]), (&Value::Null, &json!(1_000_000)));
    assert_eq!(
        (&got["chunk"], &got["back"], &got["beyond"]),
        (&json!([1, 1]), &json!([0]), &json!(0))
    );
    let wants = [
        "none",
        "is not text",
        "must be a string",
        "the length must be",
        "no PNG",
    ];
    for (i, want) in wants.iter().enumerate() {
        says(&got["errors"][i], want);
    }
}

#[tokio::test]
async fn pictures_are_kept_and_their_text_read() {
    let card = png(&[("chara", "first"), ("ccv3", "third"), ("chara", "second")]);
    let house = house(&[
        ("card.png", &card),
        (
            "plain.gif",
            b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;",
        ),
    ]);
    let got = house
        .does(
            ZIP,
            "return [host.zip.image('card.png'), host.zip.image('plain.gif')]",
            json!(null),
        )
        .await
        .unwrap();
    assert_eq!(got[0]["metadata"], json!({"chara": "first", "ccv3": "third"}));
    assert_eq!(got[1]["metadata"], json!({}));
    let url = got[0]["url"].as_str().unwrap();
    let name = url.strip_prefix("/v1/apps/alpha/__media/").unwrap();
    assert_eq!(
        std::fs::read(house.path("__media").join(name)).unwrap(),
        png(&[]),
        "without the text"
    );
}

#[tokio::test]
async fn without_an_archive_everything_fails_plainly() {
    let house = House::new();
    let body = format!(
        "{THROWN}const z = host.zip; return [await thrown(() => z.list()), await thrown(() => z.entries()), await thrown(() => z.image('x'))]"
    );
    let got = house.does(ZIP, &body, json!(null)).await.unwrap();
    for error in got.as_array().unwrap() {
        says(error, "zipBase64");
    }
}

/// However one call asks, it may have 1 GiB inflated. The entry breaks off at its first byte, so that asking for its
/// 16 MiB takes no time.
#[tokio::test]
async fn what_one_call_may_inflate_is_bounded() {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer
        .start_file("bad.txt", zip::write::SimpleFileOptions::default())
        .unwrap();
    writer.write_all(&vec![0; 16 << 20]).unwrap();
    let mut bytes = writer.finish().unwrap().into_inner();
    // Behind the local header: a kind of block that does not exist.
    let name = u16::from_le_bytes([bytes[26], bytes[27]]) as usize;
    let extra = u16::from_le_bytes([bytes[28], bytes[29]]) as usize;
    bytes[30 + name + extra] = 7;
    for ask in [
        "z.read('bad.txt')",
        "z.readBytes('bad.txt')",
        "z.readChunk('bad.txt', 16777215, 1)",
        "z.image('bad.txt')",
        "z.entries()",
    ] {
        let mut house = house(&[]);
        house.archive = Some(Arc::new(
            archive::Archive::open(bytes.clone(), archive::Limits::contract()).unwrap(),
        ));
        let body = format!(
            "{THROWN}const z = host.zip; const said = [];
            for (let i = 0; i < 65; i++) said.push(await thrown(() => {ask})); return said"
        );
        let said = house.does(ZIP, &body, json!(null)).await.unwrap();
        let over = |at: usize| said[at].as_str().is_some_and(|text| text.contains("1024 MiB"));
        assert!(!over(63), "{ask} {}", said[63]);
        assert!(over(64), "{ask} {}", said[64]);
    }
}
