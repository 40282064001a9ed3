//! What models cost: the table that ships with the program, what a server's own list says, and what a person set.
//!
//! A price is found by the exact name of a model at the provider whose connection it is, with nothing guessed beyond a
//! date at the name's end. What is not found is unknown, which is not the same as free.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Endpoint, Usage};

/// Dollars per million tokens above which a stated price is not believed (contract section 4.4).
const MOST_BELIEVED: f64 = 10_000.0;
/// Dollars per million tokens a person may set (contract section 6).
const MOST_SET: f64 = 1e6;
/// Dollars of one call that a server is believed.
const MOST_OF_A_CALL: f64 = 10_000.0;
/// Tokens of a call that are believed: ten times what the largest window of a known model holds.
const MOST_TOKENS: u64 = 100_000_000;

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    /// US dollars for each request beside its tokens.
    #[serde(skip_serializing_if = "is_nothing")]
    pub request: f64,
    /// What counts instead for requests with a long prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
}

// Every way to make one refuses what is no number.
impl Eq for Price {}
impl Eq for Above {}

/// The prices of a request whose prompt has more than `tokens` tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Above {
    pub tokens: u64,
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// What pictures and speech cost, in US dollars. Each is `None` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaPrice {
    /// For one picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<f64>,
    /// For a million characters read aloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characters: Option<f64>,
    /// For a minute of speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute: Option<f64>,
}

fn is_nothing(price: &f64) -> bool {
    *price == 0.0
}

#[derive(Deserialize)]
struct Table {
    stated: String,
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    /// As presets are called.
    id: String,
    /// Other presets of the same provider.
    #[serde(default)]
    also: Vec<String>,
    hosts: Vec<String>,
    /// What the provider writes before the names of its own models, and takes without, too.
    #[serde(default)]
    prefix: String,
    models: serde_json::Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    request: f64,
    above: Option<AboveEntry>,
    /// Other names of the same model.
    also: Vec<String>,
    images: Vec<ImageEntry>,
    per_million_characters: Option<f64>,
    per_minute: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AboveEntry {
    tokens: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

#[derive(Deserialize)]
struct ImageEntry {
    quality: Option<String>,
    size: Option<String>,
    usd: f64,
}

static TABLE: LazyLock<Option<Table>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/prices.json")).ok());

/// The month the table that ships was written for, `YYYY-MM`.
pub fn prices_stated() -> &'static str {
    TABLE.as_ref().map_or("", |table| table.stated.as_str())
}

/// What the table that ships says of the tokens of an endpoint's model. Models on this machine or in this network have
/// no price, whatever their names.
pub fn price_of(endpoint: &Endpoint, model: &str) -> Option<Price> {
    entry(endpoint, model)?.price()
}

/// What the table says of pictures and speech. Where `size` and `quality` leave more than one price for a picture, it is
/// the highest.
pub fn media_price_of(endpoint: &Endpoint, model: &str, size: Option<&str>, quality: Option<&str>) -> MediaPrice {
    let Some(entry) = entry(endpoint, model) else {
        return MediaPrice::default();
    };
    let fits = |asked: Option<&str>, of: &Option<String>| match (asked, of) {
        (Some(asked), Some(of)) => asked == of,
        _ => true,
    };
    // What the table does not know (`auto`, a new quality) narrows nothing down.
    let known = |of: fn(&ImageEntry) -> Option<&str>, asked: &&str| entry.images.iter().any(|i| of(i) == Some(*asked));
    let size = size.filter(|size| known(|image| image.size.as_deref(), size));
    let quality = quality.filter(|quality| known(|image| image.quality.as_deref(), quality));
    MediaPrice {
        image: (entry.images.iter())
            .filter(|image| fits(size, &image.size) && fits(quality, &image.quality))
            .map(|image| image.usd)
            .reduce(f64::max),
        characters: entry.per_million_characters,
        minute: entry.per_minute,
    }
}

fn entry(endpoint: &Endpoint, model: &str) -> Option<Entry> {
    let provider = provider(endpoint)?;
    let model = endpoint.bare(model);
    let model = model.strip_prefix(provider.prefix.as_str()).unwrap_or(model);
    let found = find(provider, model).or_else(|| find(provider, undated(model)?))?;
    Entry::deserialize(found).ok()
}

fn provider(endpoint: &Endpoint) -> Option<&'static Provider> {
    let table = TABLE.as_ref()?;
    if endpoint.is_local() {
        return None;
    }
    let host = endpoint.base_url.host_str()?.trim_end_matches('.');
    let by_host = table
        .providers
        .iter()
        .find(|p| p.hosts.iter().any(|known| known == host));
    by_host.or_else(|| {
        let preset = endpoint.preset.as_deref()?;
        table
            .providers
            .iter()
            .find(|p| p.id == preset || p.also.iter().any(|id| id == preset))
    })
}

fn find(provider: &'static Provider, model: &str) -> Option<&'static Value> {
    let named = |value: &Value| {
        let also = value.get("also").and_then(Value::as_array).into_iter().flatten();
        also.filter_map(Value::as_str)
            .any(|name| name.eq_ignore_ascii_case(model))
    };
    let exact = provider
        .models
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(model));
    exact
        .or_else(|| provider.models.iter().find(|(_, value)| named(value)))
        .map(|(_, value)| value)
}

/// The name without a date at its end: `-2024-08-06`, `-20250514` or `@20250514`. Shorter numbers are not taken for
/// dates: what they mean differs by provider, and so do the prices.
fn undated(model: &str) -> Option<&str> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let date = |text: &str| {
        let (month, day) = (text[4..6].parse().unwrap_or(0), text[6..8].parse().unwrap_or(0));
        text.starts_with("20") && (1..=12).contains(&month) && (1..=31).contains(&day)
    };
    if let Some((name, last)) = model.rsplit_once(['-', '@'])
        && digits(last, 8)
        && date(last)
    {
        return Some(name).filter(|name| !name.is_empty());
    }
    let mut parts = model.rsplitn(4, '-');
    let (day, month, year, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let whole = digits(year, 4) && digits(month, 2) && digits(day, 2) && date(&format!("{year}{month}{day}"));
    Some(name).filter(|name| whole && !name.is_empty())
}

impl Entry {
    fn price(&self) -> Option<Price> {
        let (input, output) = (self.input?, self.output?);
        let price = Price {
            input,
            output,
            cache_read: self.cache_read.unwrap_or(input),
            cache_write: self.cache_write.unwrap_or(input),
            request: self.request,
            above: self.above.as_ref().map(|above| Above {
                tokens: above.tokens,
                input: above.input,
                output: above.output,
                cache_read: above.cache_read.unwrap_or(above.input),
                cache_write: above.cache_write.unwrap_or(above.input),
            }),
        };
        price.believable()
    }
}

/// A number, or one in a text. No `NaN`s and infinities: JSON has none, and texts of them are refused here.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

impl Price {
    /// Reads `{input, output, cacheRead?, cacheWrite?}` as a person sets it, US dollars per million tokens, each 0 to a
    /// million; what the cache costs is the same as `input` unless it is given. All zero is what the person says: free.
    /// `None` where neither `input` nor `output` is there.
    pub fn given(value: &Value) -> Result<Option<Price>, String> {
        let one = |name: &str| given(value, name);
        let (input, output) = (one("input")?, one("output")?);
        let (cache_read, cache_write) = (one("cacheRead")?, one("cacheWrite")?);
        let (input, output) = match (input, output) {
            (Some(input), Some(output)) => (input, output),
            (None, None) if cache_read.is_none() && cache_write.is_none() => return Ok(None),
            _ => return Err("a price needs both input and output".into()),
        };
        Ok(Some(Price {
            input,
            output,
            cache_read: cache_read.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
            ..Price::default()
        }))
    }

    /// Reads the price in one entry of a server's model list, in the shapes of OpenRouter (`pricing.prompt`, dollars per
    /// token), Together (`pricing.input`, dollars per million) and DeepInfra (`metadata.pricing.input_tokens`, likewise).
    pub fn listed(entry: &Value) -> Option<Price> {
        let pricing = entry.get("pricing").or_else(|| entry.pointer("/metadata/pricing"))?;
        let one = |name: &str| pricing.get(name).and_then(number);
        let per_million = |text: &str| text.to_ascii_lowercase().contains("million");
        let (names, times) = if pricing.get("prompt").is_some() {
            let unit = pricing.get("unit").and_then(Value::as_str).is_some_and(per_million);
            let names = ["prompt", "completion", "input_cache_read", "input_cache_write"];
            (names, if unit { 1.0 } else { 1e6 })
        } else if pricing.get("input_tokens").is_some() {
            (
                [
                    "input_tokens",
                    "output_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
                ],
                1.0,
            )
        } else {
            (["input", "output", "cached_input", "cache_write"], 1.0)
        };
        let (input, output) = (one(names[0])? * times, one(names[1])? * times);
        let cache = |name: &str| one(name).map_or(input, |price| price * times);
        let price = Price {
            input,
            output,
            cache_read: cache(names[2]),
            cache_write: cache(names[3]),
            // OpenRouter's fee for each request; others have no such field.
            request: one("request").unwrap_or(0.0),
            above: None,
        };
        price.believable()
    }

    /// Contract section 4.4: what is stated is not believed above 10,000 dollars, and all zero means unknown. Nor below
    /// zero, which OpenRouter states for models whose price depends.
    fn believable(self) -> Option<Price> {
        let above = self.above.unwrap_or_default();
        let all = [
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.request,
            above.input,
            above.output,
            above.cache_read,
            above.cache_write,
        ];
        let fits = all.iter().all(|price| (0.0..=MOST_BELIEVED).contains(price));
        let nothing = all.iter().all(is_nothing);
        (fits && !nothing).then_some(self)
    }

    /// US dollars for the tokens of one request. `None` where its server counted none.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        let count = |tokens: u64| tokens.min(MOST_TOKENS);
        let (input, output) = (count(usage.input), count(usage.output));
        let (read, write) = (count(usage.cache_read), count(usage.cache_write));
        if input + output + read + write == 0 {
            return None;
        }
        let long = self.above.filter(|above| input + read + write > above.tokens);
        let (a, b, c, d) = match long {
            Some(above) => (above.input, above.output, above.cache_read, above.cache_write),
            None => (self.input, self.output, self.cache_read, self.cache_write),
        };
        let tokens = input as f64 * a + output as f64 * b + read as f64 * c + write as f64 * d;
        Some(tokens / 1e6 + self.request)
    }
}

impl MediaPrice {
    /// Reads `image` (dollars for one) and `speech` (dollars for a million characters) of a price as a person sets it.
    pub fn given(value: &Value) -> Result<MediaPrice, String> {
        Ok(MediaPrice {
            image: given(value, "image")?,
            characters: given(value, "speech")?,
            minute: None,
        })
    }

    /// Whether nothing of it is known.
    pub fn is_unknown(&self) -> bool {
        *self == MediaPrice::default()
    }
}

/// One number of a price as a person sets it.
fn given(value: &Value, name: &str) -> Result<Option<f64>, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(price) => match price.as_f64() {
            Some(price) if price < 0.0 => Err(format!("{name} is below zero: a price is at least 0")),
            Some(price) if price > MOST_SET => Err(format!("{name} is more than {MOST_SET} dollars")),
            Some(price) => Ok(Some(price)),
            None => Err(format!("{name} must be a number of US dollars")),
        },
    }
}

/// The cost that a server states with an answer, as far as that can be.
pub fn stated_cost(usage: &Usage) -> Option<f64> {
    let fits = usage.cost_total.is_finite() && usage.cost_total >= 0.0;
    (usage.priced && fits).then_some(usage.cost_total.min(MOST_OF_A_CALL))
}

#[cfg(test)]
mod tests;
