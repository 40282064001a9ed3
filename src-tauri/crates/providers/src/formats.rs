//! Prompt formats for text completion (contract section 4.3): how a conversation is written out for a model that only goes
//! on with a text. Twenty are built in, one of a person's own is six pieces of text, and which one a model wants is found
//! out by asking its server, where that is at home, or guessed from the model's name.

mod detect;
mod known;
mod lookup;
mod write;

use net::Net;
use policy::CallContext;
use serde_json::{Map, Value, json};

use crate::error::{Blame, cut};
use crate::tags::{Marks, TagSplitter};
use crate::{Endpoint, GenerateRequest, ProviderError, ProviderErrorKind};

/// Longest piece of a format of one's own, in characters (contract section 4.3).
const MAX_PIECE: usize = 400;
/// Most stop strings of a request.
pub(crate) const MAX_STOPS: usize = 32;
/// The pieces of a format of one's own.
const PIECES: [&str; 6] = [
    "systemPrefix",
    "systemSuffix",
    "userPrefix",
    "userSuffix",
    "assistantPrefix",
    "assistantSuffix",
];

/// How a conversation is written out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Format {
    /// One of the twenty, or `custom`.
    pub(crate) id: &'static str,
    /// What every prompt begins with. The mark of the beginning (`<s>`, `<bos>`) is in none: servers put it there.
    start: String,
    system: Wrap,
    user: Wrap,
    assistant: Wrap,
    /// What stands before an answer of which nothing is given.
    open: String,
    place: Place,
    /// Texts are stripped of the white space around them.
    trims: bool,
    /// Users' turns that follow one another become one, with a blank line between them.
    merges: bool,
    pub(crate) stops: Vec<String>,
    /// What must not be in the text of a message; see [`write`].
    controls: Vec<String>,
    think: Think,
    pub(crate) marks: Marks,
}

/// What stands around a text.
#[derive(Debug, Clone, Default, PartialEq)]
struct Wrap {
    prefix: String,
    suffix: String,
}

/// Where the system prompt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before everything else.
    Own,
    /// Into the user's first turn, if the conversation begins with one, and otherwise into one of its own.
    FirstUser,
    /// Into the user's last turn.
    LastUser,
    /// Into a user's turn of its own.
    AsUser,
}

/// How a model is told to think or not to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Think {
    /// What a request that says nothing gets.
    by_default: bool,
    /// Begins the system prompt of a model that is to think.
    system: &'static str,
    /// Begins the answer of a model that is to think, or is not to.
    on: &'static str,
    off: &'static str,
}

/// Why a format was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatSource {
    Request,
    Connection,
    /// The model's own template, as its server tells it.
    Template,
    /// The model's name.
    Name,
    Default,
}

impl FormatSource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::Template => "template",
            Self::Name => "name",
            Self::Default => "default",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) format: Format,
    pub(crate) source: FormatSource,
}

/// A format as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptFormat {
    /// One of [`prompt_formats`], or `custom`.
    pub id: &'static str,
    pub source: FormatSource,
    /// As a format of one's own would be written: `{systemPrefix, systemSuffix, userPrefix, userSuffix, assistantPrefix,
    /// assistantSuffix, systemAsUser}`. Some built-in formats do more than this can say.
    pub format: Value,
}

/// The built-in formats: id and name.
pub fn prompt_formats() -> Vec<(&'static str, &'static str)> {
    known::ALL.iter().map(|shape| (shape.id, shape.name)).collect()
}

/// Whether a value names a format: an id, `auto`, null, or a format of one's own. The error says what is wrong with it.
pub fn check_prompt_format(value: &Value) -> Result<(), String> {
    Format::parse(value).map(drop)
}

/// The format that a request with `wanted` as its `promptFormat` would get. Asks the server for the model's template
/// where nothing else decides and the server is at home: at most 2 seconds, and then not again for a minute.
pub async fn prompt_format(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    model: &str,
    wanted: Option<&Value>,
) -> Result<PromptFormat, ProviderError> {
    let model = endpoint.bare(model);
    let blame = Blame {
        name: endpoint.name.clone(),
        model: Some(model.to_owned()),
        key: endpoint.key.clone(),
    };
    let chosen = find(ctx, net, endpoint, &blame, wanted, model).await?;
    Ok(chosen.shown())
}

/// The format for a model that no server is known of: by `wanted`, or by its name.
pub fn prompt_format_by_name(model: &str, wanted: Option<&Value>) -> Result<PromptFormat, String> {
    let given = wanted.map(Format::parse).transpose()?.flatten();
    Ok(match given {
        Some(format) => Chosen {
            format,
            source: FormatSource::Request,
        },
        None => by_name(model),
    }
    .shown())
}

/// Chooses the format for a request, and looks whether it can be sent as text at all. To be called before the body is
/// made, for [`crate::wire::Api::OpenaiText`] only.
pub(crate) async fn choose(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    blame: &Blame,
    request: &GenerateRequest,
    model: &str,
) -> Result<Chosen, ProviderError> {
    let unusable = |what: String| blame.error(ProviderErrorKind::Unusable, what);
    if endpoint.base_url.scheme() != "https" && !endpoint.is_local() {
        return Err(unusable(
            "text completion goes over https only, except to a server on this machine or in this network; give the \
             connection an address that begins with https"
                .into(),
        ));
    }
    if request.messages.iter().any(|message| !message.images.is_empty()) {
        return Err(unusable(
            "text completion cannot show images to a model; take them out, or choose a connection that speaks a chat \
             format"
                .into(),
        ));
    }
    stops(request).map_err(unusable)?;
    find(ctx, net, endpoint, blame, request.prompt_format.as_ref(), model).await
}

async fn find(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    blame: &Blame,
    wanted: Option<&Value>,
    model: &str,
) -> Result<Chosen, ProviderError> {
    for (value, source) in [
        (wanted, FormatSource::Request),
        (endpoint.prompt_format.as_ref(), FormatSource::Connection),
    ] {
        let Some(value) = value else { continue };
        let parsed = Format::parse(value);
        let given = parsed.map_err(|why| blame.error(ProviderErrorKind::Unusable, why))?;
        if let Some(format) = given {
            return Ok(Chosen { format, source });
        }
    }
    Ok(match lookup::by_template(ctx, net, endpoint, model).await {
        Some(format) => Chosen {
            format,
            source: FormatSource::Template,
        },
        None => by_name(model),
    })
}

fn by_name(model: &str) -> Chosen {
    match detect::by_name(model) {
        Some(shape) => Chosen {
            format: shape.into(),
            source: FormatSource::Name,
        },
        None => Chosen {
            format: known::default().into(),
            source: FormatSource::Default,
        },
    }
}

/// The stop strings of a request: `presetParams.params.stop`, one or a list of at most 32.
pub(crate) fn stops(request: &GenerateRequest) -> Result<Vec<String>, String> {
    let params = request.preset_params.as_ref().and_then(|preset| preset.params.as_ref());
    let list = match params.and_then(|params| params.get("stop")) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    if list.len() > MAX_STOPS {
        return Err(format!("stop: at most {MAX_STOPS} strings"));
    }
    let mut stops = Vec::with_capacity(list.len());
    for stop in list {
        match stop.as_str() {
            // An empty one would stop everything at once.
            Some("") => {}
            Some(stop) => stops.push(stop.to_owned()),
            None => return Err("stop: a string or a list of strings".into()),
        }
    }
    Ok(stops)
}

impl Chosen {
    fn shown(self) -> PromptFormat {
        PromptFormat {
            id: self.format.id,
            source: self.source,
            format: self.format.pieces(),
        }
    }
}

impl Format {
    /// Separates what the model thinks from what it answers: by the marks of its format and those the request names.
    pub(crate) fn splitter(&self, request: &GenerateRequest) -> TagSplitter {
        let marks = match &request.reasoning_tags {
            Some(tags) => self.marks.clone().and(tags),
            None => self.marks.clone(),
        };
        let prefill = request.prefill();
        let mut splitter = TagSplitter::with_marks(marks, prefill.unwrap_or_else(|| self.begun(request.level())));
        if prefill.is_none() {
            // Many models begin with the space that their format has after the mark of the answer.
            splitter.skip_space();
        }
        splitter
    }

    /// `None` for `auto`. The error names what is wrong.
    pub(crate) fn parse(value: &Value) -> Result<Option<Format>, String> {
        match value {
            Value::Null => Ok(None),
            Value::String(id) if matches!(id.trim(), "" | "auto") => Ok(None),
            Value::String(text) if text.trim_start().starts_with('{') => {
                let value: Map<String, Value> =
                    serde_json::from_str(text).map_err(|error| format!("promptFormat: not JSON: {error}"))?;
                Format::custom(&value).map(Some)
            }
            Value::String(id) => match known::ALL.iter().find(|shape| shape.id == id.trim()) {
                Some(shape) => Ok(Some(shape.into())),
                None => {
                    let ids: Vec<&str> = known::ALL.iter().map(|shape| shape.id).collect();
                    Err(format!(
                        "promptFormat: there is no format {:?}; there are auto, {}, and formats of one's own",
                        cut(id.trim(), 60),
                        ids.join(", ")
                    ))
                }
            },
            Value::Object(map) => Format::custom(map).map(Some),
            _ => Err("promptFormat: an id, \"auto\", or an object".into()),
        }
    }

    fn custom(map: &Map<String, Value>) -> Result<Format, String> {
        let piece = |name: &str| match map.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) if text.chars().count() > MAX_PIECE => {
                Err(format!("promptFormat: {name} has more than {MAX_PIECE} characters"))
            }
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("promptFormat: {name} must be text")),
        };
        let wrap = |prefix: &str, suffix: &str| {
            Ok::<_, String>(Wrap {
                prefix: piece(prefix)?,
                suffix: piece(suffix)?,
            })
        };
        let system = wrap(PIECES[0], PIECES[1])?;
        let user = wrap(PIECES[2], PIECES[3])?;
        let assistant = wrap(PIECES[4], PIECES[5])?;
        let place = match map.get("systemAsUser") {
            None | Some(Value::Null | Value::Bool(false)) => Place::Own,
            Some(Value::Bool(true)) => Place::AsUser,
            Some(_) => return Err("promptFormat: systemAsUser must be true or false".into()),
        };
        if user.prefix.is_empty() && assistant.prefix.is_empty() {
            return Err("promptFormat: userPrefix or assistantPrefix is needed, to tell the turns apart".into());
        }
        let mut controls: Vec<String> = Vec::new();
        for wrap in [&system, &user, &assistant] {
            controls.extend([&wrap.prefix, &wrap.suffix].map(|text| text.trim().to_owned()));
        }
        // The next turn of the person is not the model's to write.
        let mut stops: Vec<String> = Vec::new();
        for text in [&user.prefix, &assistant.suffix] {
            let text = text.trim();
            if !text.is_empty() && !stops.iter().any(|stop| stop == text) {
                stops.push(text.to_owned());
            }
        }
        Ok(Format {
            id: "custom",
            start: String::new(),
            open: assistant.prefix.clone(),
            system,
            user,
            assistant,
            place,
            trims: false,
            merges: false,
            stops,
            controls: write::usable_controls(controls),
            think: Think::default(),
            marks: Marks::common(),
        })
    }

    /// As a format of one's own.
    fn pieces(&self) -> Value {
        let wraps = [&self.system, &self.user, &self.assistant];
        let texts = wraps.into_iter().flat_map(|wrap| [&wrap.prefix, &wrap.suffix]);
        let mut pieces: Map<String, Value> = PIECES
            .iter()
            .map(|name| (*name).to_owned())
            .zip(texts.map(|text| json!(text)))
            .collect();
        pieces.insert("systemAsUser".into(), json!(self.place != Place::Own));
        Value::Object(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty() {
        let ids: Vec<&str> = prompt_formats().iter().map(|format| format.0).collect();
        let want = "chatml llama3 llama4 llama2 mistral-v7-tekken mistral-v7 mistral-v3-tekken mistral-v2 gemma gemma4 \
                    command-r phi glm4 deepseek kimi harmony tulu metharme alpaca vicuna";
        assert_eq!(ids, want.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn formats_of_ones_own_and_what_is_wrong_with_them() {
        let ok = json!({"userPrefix": "Q: ", "userSuffix": "\n", "assistantPrefix": "A: ", "assistantSuffix": "\n", "systemAsUser": null, "more": 1});
        let format = Format::parse(&ok).unwrap().unwrap();
        assert_eq!((format.id, format.stops.as_slice()), ("custom", &["Q:".to_owned()][..]));
        assert_eq!(format.pieces()["assistantPrefix"], "A: ");
        let again = Format::parse(&json!(ok.to_string())).unwrap().unwrap();
        assert_eq!(again, format);
        assert!(check_prompt_format(&json!({"assistantPrefix": "é".repeat(400)})).is_ok());
        for (value, said) in [
            (json!({}), "userPrefix or assistantPrefix"),
            (
                json!({"userSuffix": "x", "systemPrefix": "y"}),
                "userPrefix or assistantPrefix",
            ),
            (json!({"userPrefix": "x".repeat(401)}), "userPrefix has more than 400"),
            (
                json!({"userPrefix": "x", "systemSuffix": 5}),
                "systemSuffix must be text",
            ),
            (json!({"userPrefix": "x", "systemAsUser": "yes"}), "systemAsUser"),
            (json!("chatlm"), "no format \"chatlm\"; there are auto, chatml"),
            (json!("{"), "not JSON"),
            (json!(5), "an id"),
            (json!([]), "an id"),
        ] {
            let error = check_prompt_format(&value).unwrap_err();
            assert!(error.contains(said), "{value}: {error}");
        }
        for auto in [json!(null), json!("auto"), json!(""), json!(" auto ")] {
            assert_eq!(Format::parse(&auto), Ok(None));
        }
        // What is shown of a built-in format can be given as a format of one's own.
        for (id, _) in prompt_formats() {
            let shown = prompt_format_by_name("x", Some(&json!(id))).unwrap();
            assert_eq!(shown.source, FormatSource::Request);
            check_prompt_format(&shown.format).unwrap();
        }
    }

    #[test]
    fn stop_strings() {
        let of = |stop: Value| {
            let request = json!({"messages": [], "presetParams": {"params": {"stop": stop}}});
            stops(&serde_json::from_value(request).unwrap())
        };
        assert_eq!(of(json!("a")), Ok(vec!["a".into()]));
        assert_eq!(of(json!(["a", "", "b"])), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(of(json!(null)), Ok(vec![]));
        assert_eq!(of(json!(vec!["x"; 32])).map(|stops| stops.len()), Ok(32));
        assert!(of(json!(vec!["x"; 33])).unwrap_err().contains("32"));
        assert!(of(json!([5])).is_err() && of(json!({})).is_err());
    }
}
