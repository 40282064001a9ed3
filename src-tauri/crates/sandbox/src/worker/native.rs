//! Functions for the prelude that would be slow or wrong in JavaScript: texts to bytes and back, base64, addresses,
//! random bytes.
//!
//! They run with the guest's arguments in the guest's process and reach nothing. `__sandbox.native` makes them when it
//! is first read: most calls need none of them.

use std::borrow::Cow;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoding};
use rquickjs::{
    Class, Ctx, Error, Exception, Function, JsLifetime, Object, String as Text, TypedArray, Value,
    class::{JsClass, Trace, Tracer, Writable},
    function::Constructor,
    function::Opt,
};
use url::{Url, form_urlencoded, quirks};

type Bytes<'js> = TypedArray<'js, u8>;

/// All of them, as properties of one object. Their arguments are strings and `Uint8Array`s; the prelude sees to that.
///
/// - `utf8Encode(string) -> Uint8Array`; a lone half of a surrogate pair becomes U+FFFD, as in all of these.
/// - `utf8EncodeInto(string, bytes) -> [read, written]`
/// - `encoding(label) -> string | undefined`, the name of the encoding with this label, in lower case.
/// - `decode(label, bytes, fatal = false, ignoreBOM = false) -> string`; throws a `RangeError` for a label nobody knows
///   and a `TypeError` for bytes that are not in this encoding, if `fatal`.
/// - `decoder(label, fatal, ignoreBOM) -> object`, for `decodeNext(object, bytes, last) -> string`: the same, piece by
///   piece. After the last piece, and after an error, the object is of no use any more.
/// - `base64Encode(bytes, {url}?) -> string`; with `url` the alphabet for addresses, without padding.
/// - `base64Decode(string, {url}?) -> Uint8Array`; forgiving as `atob`, throws a `TypeError`.
/// - `latin1(string) -> Uint8Array`, each character one byte; throws a `RangeError` for characters above U+00FF.
/// - `latin1Decode(bytes) -> string`, each byte one character.
/// - `random(bytes)` fills them.
/// - `urlParse(text, base?) -> {href, origin, protocol, username, password, host, hostname, port, pathname, search, hash}`
///   or `null`.
/// - `urlSet(href, part, value)`, the same after a change; a value that does not fit changes nothing.
/// - `formDecode(text) -> [name, value, name, value, …]` and `formEncode(list) -> text`, form-urlencoded.
pub fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
    let object = Object::new(ctx.clone())?;
    macro_rules! set {
        ($($name:literal: $function:expr),* $(,)?) => {
            $(object.set($name, Function::new(ctx.clone(), $function)?)?;)*
        };
    }
    set! {
        "utf8Encode": utf8_encode,
        "utf8EncodeInto": utf8_encode_into,
        "encoding": encoding,
        "decode": decode,
        "decoder": decoder,
        "decodeNext": decode_next,
        "base64Encode": base64_encode,
        "base64Decode": base64_decode,
        "latin1": latin1,
        "latin1Decode": latin1_decode,
        "random": random,
        "urlParse": url_parse,
        "urlSet": url_set,
        "formDecode": form_decode,
        "formEncode": form_encode,
    }
    Ok(object)
}

/// The bytes of an array, none when its buffer was given away (detached). The guest cannot change them meanwhile,
/// because no JavaScript runs while we look at them.
fn bytes<'a>(array: &'a Bytes) -> &'a [u8] {
    // SAFETY: no JavaScript runs, and so nobody frees, moves or writes them, until the borrow ends: every function here
    // makes its result, which may call into the engine, from a copy or as its last act.
    unsafe { array.as_bytes() }.unwrap_or_default()
}

/// Well-formed UTF-8 of a JavaScript text.
fn utf8(text: Text) -> Result<Vec<u8>, Error> {
    let text = text.to_cstring()?;
    // SAFETY: pointer and length are those the engine gave for this text, which lives as long as `text`. It is not
    // always UTF-8, hence not `as_str`.
    let mut bytes = unsafe { std::slice::from_raw_parts(text.as_ptr().cast::<u8>(), text.len()) }.to_vec();
    if std::str::from_utf8(&bytes).is_err() {
        // The engine writes a lone half as the three bytes it would have as a character: ED A0..BF xx. U+FFFD has three
        // as well.
        let mut at = 0;
        while at + 2 < bytes.len() {
            if bytes[at] == 0xED && bytes[at + 1] >= 0xA0 {
                bytes[at..at + 3].copy_from_slice("\u{FFFD}".as_bytes());
            }
            at += 1;
        }
    }
    Ok(bytes)
}

fn string(text: Text) -> Result<String, Error> {
    Ok(match String::from_utf8(utf8(text)?) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn utf8_encode<'js>(ctx: Ctx<'js>, text: Text<'js>) -> Result<Bytes<'js>, Error> {
    // A copy, so that the engine counts it as part of its heap.
    Bytes::new_copy(ctx, utf8(text)?)
}

/// Fills as many whole characters in as there is room for: UTF-16 units read, bytes written.
fn utf8_encode_into<'js>(ctx: Ctx<'js>, text: Text<'js>, array: Bytes<'js>) -> Result<Vec<usize>, Error> {
    let text = string(text)?;
    let room = array.as_raw().map_or(0, |raw| raw.len());
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    write(&ctx, &array, &text.as_bytes()[..end])?;
    Ok(vec![text[..end].encode_utf16().count(), end])
}

fn write<'js>(ctx: &Ctx<'js>, array: &Bytes<'js>, bytes: &[u8]) -> Result<(), Error> {
    if bytes.is_empty() {
        return Ok(());
    }
    let raw = array.as_raw().filter(|raw| raw.len() >= bytes.len());
    let raw = raw.ok_or_else(|| Exception::throw_type(ctx, "these bytes were given away (detached)"))?;
    // SAFETY: the array has room for them, no JavaScript runs meanwhile, and `bytes` is memory of our own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), raw.cast::<u8>().as_ptr(), bytes.len()) };
    Ok(())
}

fn encoding(label: Text) -> Result<Option<String>, Error> {
    let found = Encoding::for_label_no_replacement(&utf8(label)?);
    Ok(found.map(|encoding| encoding.name().to_ascii_lowercase()))
}

fn by_label<'js>(ctx: &Ctx<'js>, label: Text<'js>) -> Result<&'static Encoding, Error> {
    let label = string(label)?;
    Encoding::for_label_no_replacement(label.as_bytes()).ok_or_else(|| {
        let label: String = label.chars().take(40).collect();
        Exception::throw_range(ctx, &format!("there is no encoding with the label \"{label}\""))
    })
}

fn malformed(ctx: &Ctx, encoding: &'static Encoding) -> Error {
    Exception::throw_type(ctx, &format!("these bytes are not {}", encoding.name()))
}

fn decode<'js>(
    ctx: Ctx<'js>,
    label: Text<'js>,
    array: Bytes<'js>,
    fatal: Opt<bool>,
    ignore_bom: Opt<bool>,
) -> Result<Text<'js>, Error> {
    let encoding = by_label(&ctx, label)?;
    let bytes = bytes(&array);
    let (fatal, ignore_bom) = (fatal.0.unwrap_or(false), ignore_bom.0.unwrap_or(false));
    let bytes = if ignore_bom {
        bytes
    } else {
        without_bom(encoding, bytes)
    };
    let text: Cow<str> = if fatal {
        let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
        text.ok_or_else(|| malformed(&ctx, encoding))?
    } else {
        encoding.decode_without_bom_handling(bytes).0
    };
    Text::from_str(ctx, &text)
}

/// Only the mark of this very encoding is taken off.
fn without_bom<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> &'a [u8] {
    match Encoding::for_bom(bytes) {
        Some((marked, length)) if marked == encoding => &bytes[length..],
        _ => bytes,
    }
}

/// A decoder between two pieces.
struct Pieces {
    encoding: &'static Encoding,
    decoder: Decoder,
    fatal: bool,
}

// It holds nothing of the engine.
impl<'js> Trace<'js> for Pieces {
    fn trace<'a>(&self, _: Tracer<'a, 'js>) {}
}

// SAFETY: there is no lifetime in it to be changed.
unsafe impl<'js> JsLifetime<'js> for Pieces {
    type Changed<'to> = Pieces;
}

impl<'js> JsClass<'js> for Pieces {
    const NAME: &'static str = "Decoder";
    type Mutable = Writable;
    fn prototype(_: &Ctx<'js>) -> Result<Option<Object<'js>>, Error> {
        Ok(None)
    }
    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>, Error> {
        Ok(None)
    }
}

fn decoder<'js>(ctx: Ctx<'js>, label: Text<'js>, fatal: bool, ignore_bom: bool) -> Result<Class<'js, Pieces>, Error> {
    let encoding = by_label(&ctx, label)?;
    let decoder = if ignore_bom {
        encoding.new_decoder_without_bom_handling()
    } else {
        encoding.new_decoder_with_bom_removal()
    };
    let pieces = Pieces {
        encoding,
        decoder,
        fatal,
    };
    Class::instance(ctx, pieces)
}

fn decode_next<'js>(
    ctx: Ctx<'js>,
    pieces: Class<'js, Pieces>,
    array: Bytes<'js>,
    last: bool,
) -> Result<Text<'js>, Error> {
    let mut pieces = pieces.try_borrow_mut()?;
    let bytes = bytes(&array);
    let mut text = String::new();
    if !pieces.fatal {
        let room = pieces.decoder.max_utf8_buffer_length(bytes.len());
        text.reserve(room.ok_or_else(|| Exception::throw_range(&ctx, "too many bytes"))?);
        let (result, _, _) = pieces.decoder.decode_to_string(bytes, &mut text, last);
        debug_assert!(matches!(result, CoderResult::InputEmpty));
    } else {
        let room = pieces.decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        text.reserve(room.ok_or_else(|| Exception::throw_range(&ctx, "too many bytes"))?);
        let (result, _) = pieces
            .decoder
            .decode_to_string_without_replacement(bytes, &mut text, last);
        if matches!(result, DecoderResult::Malformed(..)) {
            return Err(malformed(&ctx, pieces.encoding));
        }
    }
    Text::from_str(ctx, &text)
}

const FORGIVING: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone)
    .with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, FORGIVING);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, FORGIVING.with_encode_padding(false));

fn variant<'js>(options: Opt<Value<'js>>) -> Result<&'static GeneralPurpose, Error> {
    let options = options.0.as_ref().and_then(Value::as_object);
    let url = options.map_or(Ok(None), |options| options.get::<_, Option<bool>>("url"))?;
    Ok(if url == Some(true) { &FOR_URLS } else { &PLAIN })
}

fn base64_encode<'js>(ctx: Ctx<'js>, array: Bytes<'js>, options: Opt<Value<'js>>) -> Result<Text<'js>, Error> {
    let engine = variant(options)?;
    let text = engine.encode(bytes(&array));
    Text::from_str(ctx, &text)
}

/// WHATWG "forgiving-base64 decode": blanks are skipped, padding may be missing but not be half there, bits left over
/// are dropped.
fn base64_decode<'js>(ctx: Ctx<'js>, text: Text<'js>, options: Opt<Value<'js>>) -> Result<Bytes<'js>, Error> {
    let engine = variant(options)?;
    let mut text = utf8(text)?;
    if text.iter().any(u8::is_ascii_whitespace) {
        // HTML's blanks are tab, line feed, form feed, carriage return and space, and so are Rust's.
        text.retain(|byte| !byte.is_ascii_whitespace());
    }
    let mut digits = text.as_slice();
    if digits.len().is_multiple_of(4) {
        digits = digits
            .strip_suffix(b"==")
            .or(digits.strip_suffix(b"="))
            .unwrap_or(digits);
    }
    let bytes = engine
        .decode(digits)
        .map_err(|_| Exception::throw_type(&ctx, "this text is not base64"))?;
    Bytes::new_copy(ctx, bytes)
}

fn latin1<'js>(ctx: Ctx<'js>, text: Text<'js>) -> Result<Bytes<'js>, Error> {
    let text = string(text)?;
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let bytes = bytes.ok_or_else(|| Exception::throw_range(&ctx, "a character of this text is above U+00FF"))?;
    Bytes::new_copy(ctx, bytes)
}

fn latin1_decode<'js>(ctx: Ctx<'js>, array: Bytes<'js>) -> Result<Text<'js>, Error> {
    let text = encoding_rs::mem::decode_latin1(bytes(&array));
    Text::from_str(ctx, &text)
}

fn random<'js>(ctx: Ctx<'js>, array: Bytes<'js>) -> Result<Bytes<'js>, Error> {
    let mut bytes = vec![0u8; array.as_raw().map_or(0, |raw| raw.len())];
    for chunk in bytes.chunks_mut(256) {
        // Up to 256 bytes come whole, says the manual.
        // SAFETY: writes into memory of our own, of the length given.
        let got = unsafe { libc::getrandom(chunk.as_mut_ptr().cast(), chunk.len(), 0) };
        if usize::try_from(got) != Ok(chunk.len()) {
            return Err(Exception::throw_message(&ctx, "the system gives no random bytes"));
        }
    }
    write(&ctx, &array, &bytes)?;
    Ok(array)
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> Result<Object<'js>, Error> {
    let parts = Object::new(ctx.clone())?;
    let origin = quirks::origin(url);
    for (name, part) in [
        ("href", url.as_str()),
        ("origin", &origin),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ] {
        parts.set(name, part)?;
    }
    Ok(parts)
}

fn url_parse<'js>(ctx: Ctx<'js>, text: Text<'js>, base: Opt<Option<Text<'js>>>) -> Result<Option<Object<'js>>, Error> {
    let text = string(text)?;
    let url = match base.0.flatten() {
        None => Url::parse(&text),
        Some(base) => Url::parse(&string(base)?).and_then(|base| base.join(&text)),
    };
    url.ok().map(|url| parts(&ctx, &url)).transpose()
}

fn url_set<'js>(ctx: Ctx<'js>, href: Text<'js>, part: String, value: Text<'js>) -> Result<Object<'js>, Error> {
    let mut url = Url::parse(&string(href)?).map_err(|_| Exception::throw_type(&ctx, "not a URL"))?;
    let value = string(value)?;
    let before = url.clone();
    let changed = match part.as_str() {
        "href" => match quirks::set_href(&mut url, &value) {
            Ok(()) => Ok(()),
            Err(_) => return Err(Exception::throw_type(&ctx, "not a URL")),
        },
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
        _ => return Err(Exception::throw_type(&ctx, "a URL has no such part")),
    };
    // A browser ignores what does not fit, too.
    parts(&ctx, if changed.is_ok() { &url } else { &before })
}

fn form_decode(text: Text) -> Result<Vec<String>, Error> {
    let text = string(text)?;
    let pairs = form_urlencoded::parse(text.as_bytes());
    Ok(pairs
        .flat_map(|(name, value)| [name.into_owned(), value.into_owned()])
        .collect())
}

fn form_encode(list: Vec<Text>) -> Result<String, Error> {
    let mut out = form_urlencoded::Serializer::new(String::new());
    let list: Vec<String> = list.into_iter().map(string).collect::<Result<_, _>>()?;
    for pair in list.chunks_exact(2) {
        out.append_pair(&pair[0], &pair[1]);
    }
    Ok(out.finish())
}
