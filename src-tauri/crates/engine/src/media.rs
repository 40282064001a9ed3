//! Pictures and speech: who is asked, what it may cost, and the result kept as an asset of whoever wanted it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use db::{ActivityEnd, AssetRow, ConnectionRow, NewActivity, SpeechEndpointRow};
use http::StatusCode;
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext};
use providers::{Endpoint, ImageRequest, ProviderError, ProviderErrorKind, SoundFormat, SpeechRequest, Voice};
use secrets::{Bound, KeyHandle, Standing};
use serde_json::{Value, json};
use url::Url;

use crate::activity::line;
use crate::error::{Answer, ApiError};
use crate::models::Listed;
use crate::routes::{assets, key_trouble};
use crate::spend::{Reservation, Truth, What};
use crate::{Engine, in_place};

/// Pictures and readings that one app, or the launcher, may have under way at once.
const AT_ONCE: usize = 4;
/// How long a server's list of voices is used before it is asked again.
const VOICES_AGE: Duration = Duration::from_secs(60);
/// Lists of voices that are remembered.
const VOICE_LISTS: usize = 256;
/// Bytes that must be free among an account's assets before a picture or a sound is paid for: the largest there can be.
const IMAGE_ROOM: u64 = 32 << 20;
const SOUND_ROOM: u64 = 20 << 20;
/// The model and the voice where nobody names one.
const SPEECH_MODEL: &str = "tts-1";
const VOICE: &str = "alloy";

type Known = HashMap<(AccountId, String), (Instant, Result<Vec<Voice>, String>)>;

/// What is under way, and what is remembered.
#[derive(Default)]
pub(crate) struct Media {
    running: Mutex<HashMap<(AccountId, Option<AppId>), usize>>,
    voices: Mutex<Known>,
}

impl Media {
    pub(crate) fn forget_voices(&self, account: &AccountId) {
        self.voices.lock().retain(|(owner, _), _| owner != account);
    }
}

/// A place among the [`AT_ONCE`], until it is dropped.
struct Seat<'a> {
    media: &'a Media,
    of: (AccountId, Option<AppId>),
}

impl<'a> Seat<'a> {
    fn take(media: &'a Media, account: &AccountId, app: Option<&AppId>) -> Answer<Self> {
        let of = (account.clone(), app.cloned());
        let mut running = media.running.lock();
        let count = running.entry(of.clone()).or_default();
        if *count >= AT_ONCE {
            let why = format!("{AT_ONCE} pictures and readings are under way already. Wait until one of them is done.");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, why).code("busy"));
        }
        *count += 1;
        drop(running);
        Ok(Self { media, of })
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut running = self.media.running.lock();
        let left = running.get(&self.of).copied().unwrap_or_default().saturating_sub(1);
        match left {
            0 => running.remove(&self.of),
            left => running.insert(self.of.clone(), left),
        };
    }
}

/// The activity log's line of one request, which is completed even when whoever asked went away.
struct Line<'a> {
    engine: &'a Engine,
    id: i64,
    began: Instant,
    model: String,
    open: bool,
}

impl<'a> Line<'a> {
    fn begin(engine: &'a Engine, context: &CallContext, endpoint: &Endpoint, model: &str, what: String) -> Self {
        let target = format!("{}/{model}", endpoint.connection_id);
        let id = engine.activity().add(&NewActivity {
            detail: Some(what),
            ..line(context, "model", target, "running")
        });
        Self {
            engine,
            id,
            began: Instant::now(),
            model: model.to_owned(),
            open: true,
        }
    }

    fn end(&mut self, outcome: &str, detail: Option<&str>, received: usize, cost: Option<f64>) {
        self.open = false;
        let end = ActivityEnd {
            outcome,
            received: received as u64,
            ms: self.began.elapsed().as_millis() as u64,
            detail,
            model: Some(&self.model),
            cost,
            ..ActivityEnd::default()
        };
        self.engine.activity().finish(self.id, &end);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.open {
            self.end("stopped", None, 0, None);
        }
    }
}

/// A picture to be made, as a request names it.
pub(crate) struct ImageWanted {
    pub(crate) prompt: String,
    pub(crate) model: Option<String>,
    pub(crate) size: Option<String>,
    pub(crate) quality: Option<String>,
}

/// A text to be read, likewise.
pub(crate) struct SpeechWanted {
    pub(crate) text: String,
    pub(crate) model: Option<String>,
    pub(crate) voice: Option<String>,
    pub(crate) speed: Option<f64>,
    pub(crate) format: SoundFormat,
    /// The id of a connection or of a speech server.
    pub(crate) from: Option<String>,
    /// Only speech servers come into question.
    pub(crate) servers_only: bool,
}

/// Who reads aloud.
#[derive(Debug, Clone)]
pub(crate) enum Speaker {
    Server(SpeechEndpointRow),
    /// A connection, and its model that speaks.
    Connection(ConnectionRow, String),
}

impl Speaker {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Server(row) => &row.id,
            Self::Connection(row, _) => &row.id,
        }
    }
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Server(row) => &row.name,
            Self::Connection(row, _) => &row.name,
        }
    }
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Server(_) => "endpoint",
            Self::Connection(..) => "connection",
        }
    }
}

/// The innermost app that a call is for.
fn app_of(context: &CallContext) -> Option<&AppId> {
    context.chain.iter().rev().find_map(|caller| caller.app())
}

fn account_of(context: &CallContext) -> Answer<&AccountId> {
    let account = context.account.as_ref();
    account.ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "Sign in first."))
}

/// What a caller is told of a failure: pages do not learn addresses.
fn failed(error: &ProviderError, app: Option<&AppId>) -> ApiError {
    let status = match error.kind {
        ProviderErrorKind::Unusable => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    };
    let text = if app.is_some() {
        error.guest()
    } else {
        error.to_string()
    };
    ApiError::new(status, text).code(error.kind.code())
}

/// What nobody bills for: what was not sent, or answered with an error. A connection that broke may be billed.
fn settle_failure(reserved: Reservation, error: &ProviderError) {
    let unpaid = matches!(
        error.kind,
        ProviderErrorKind::InAnswer | ProviderErrorKind::Unusable | ProviderErrorKind::NotTheApi
    );
    if error.unpaid || error.status.is_some() || unpaid {
        reserved.settle(Truth::Nothing);
    }
}

fn over_limit(why: String) -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, why).code("limit")
}

impl Engine {
    /// The key under the vault's name `id`, for `base` alone. One that is for another address, or locked away, is an error.
    fn key_for(&self, account: &AccountId, id: &str, base: &Url, app: Option<&AppId>) -> Answer<Option<KeyHandle>> {
        let bound = Bound::of(base).map_err(|error| ApiError::bad(error.to_string()))?;
        let id = Self::key_id(account, id);
        let standing = in_place(|| self.vault().standing(&id, &bound));
        let why = match app {
            None => key_trouble(&standing),
            Some(_) => {
                Some("The key for this cannot be used: the person has to look at it in the launcher's settings.".into())
            }
        };
        let why = why.unwrap_or_default();
        match standing {
            Standing::None => Ok(None),
            Standing::Ready(_) => Ok(self.vault().handle(&id, &bound)),
            Standing::Elsewhere(..) => Err(ApiError::bad(why).code("key")),
            Standing::Locked(_) => Err(ApiError::conflict(why).code("key_store_locked")),
        }
    }

    fn connection_endpoint(&self, account: &AccountId, row: &ConnectionRow, app: Option<&AppId>) -> Answer<Endpoint> {
        let mut endpoint = self.endpoint(account, row).map_err(ApiError::bad)?;
        endpoint.key = self.key_for(account, &row.id, &endpoint.base_url, app)?;
        Ok(endpoint)
    }

    /// How the vault names the key of a speech server (contract section 8).
    pub(crate) fn speech_key(id: &str) -> String {
        format!("speech/{id}")
    }

    fn speech_endpoint(&self, account: &AccountId, row: &SpeechEndpointRow, app: Option<&AppId>) -> Answer<Endpoint> {
        let url = Url::parse(&row.base_url).map_err(|error| ApiError::bad(error.to_string()))?;
        let key = self.key_for(account, &Self::speech_key(&row.id), &url, app)?;
        let mut endpoint = Endpoint::new(&row.id, &row.name, url);
        endpoint.key = key;
        Ok(endpoint)
    }

    /// The models of all connections for which `fits`, and which the app, if there is one, may use.
    async fn models_that(&self, context: &CallContext, fits: fn(&str) -> bool) -> Answer<Vec<Listed>> {
        let account = account_of(context)?;
        let allowed = self.allowed_models(account, app_of(context))?;
        let rows = self.db().connections(account)?;
        let rows: Vec<_> = rows.iter().filter(|row| allowed.includes_some_of(&row.id)).collect();
        let lists = rows.iter().map(|row| self.list_one(context, account, row, false));
        let lists = futures::future::join_all(lists).await;
        let all = lists.into_iter().flatten().flatten();
        Ok(all
            .filter(|m| fits(&m.id) && allowed.includes(&m.reference()))
            .collect())
    }

    /// Text of a setting.
    fn set_text(&self, account: &AccountId, name: &str) -> Answer<Option<String>> {
        let value = self.db().setting(account, name)?;
        Ok(value
            .and_then(|value| Some(value.as_str()?.to_owned()))
            .filter(|text| !text.is_empty()))
    }

    /// The models that make pictures, by what their names tell, and the one that is used where none is named.
    pub(crate) async fn image_models(&self, context: &CallContext) -> Answer<(Vec<Listed>, Option<String>)> {
        let account = account_of(context)?;
        let models = self.models_that(context, providers::makes_images).await?;
        let set = self.set_text(account, "imageModel")?;
        let set = match set {
            Some(set) if self.image_connection(account, app_of(context), &set)?.is_some() => Some(set),
            _ => None,
        };
        let default = set.or_else(|| models.first().map(Listed::reference));
        Ok((models, default))
    }

    /// The connection of a `connection/model` that the app may use.
    fn image_connection(
        &self,
        account: &AccountId,
        app: Option<&AppId>,
        reference: &str,
    ) -> Answer<Option<(ConnectionRow, String)>> {
        let Some((connection, model)) = reference.split_once('/').filter(|(_, model)| !model.is_empty()) else {
            return Ok(None);
        };
        if !self.allowed_models(account, app)?.includes(reference) {
            return Ok(None);
        }
        let row = self.db().connection(account, connection)?;
        Ok(row.map(|row| (row, model.to_owned())))
    }

    async fn painter(&self, context: &CallContext, wanted: Option<&str>) -> Answer<(ConnectionRow, String)> {
        let (account, app) = (account_of(context)?, app_of(context));
        if let Some(wanted) = wanted {
            if let Some((connection, model)) = wanted.split_once('/').filter(|(_, model)| !model.is_empty())
                && let Some(row) = self.db().connection(account, connection)?
            {
                self.may_use(account, app, wanted)
                    .map_err(|why| ApiError::forbidden(why).code("refused"))?;
                return Ok((row, model.to_owned()));
            }
            let models = self.models_that(context, providers::makes_images).await?;
            let found = models.into_iter().find(|model| model.id == wanted);
            let row = match &found {
                Some(found) => self.db().connection(account, &found.connection)?,
                None => None,
            };
            let shown: String = wanted.chars().take(200).collect();
            return row.map(|row| (row, wanted.to_owned())).ok_or_else(|| {
                let why =
                    format!("The model \"{shown}\" is not available: no connection offers it. Choose another model.");
                ApiError::bad(why).code("model_gone")
            });
        }
        let (_, default) = self.image_models(context).await?;
        let found = match default {
            Some(reference) => self.image_connection(account, app, &reference)?,
            None => None,
        };
        found.ok_or_else(|| {
            let why = "No model that makes pictures is set up. Add a connection that has one in the launcher under \
                       Settings → Models, and choose it under Settings → Speech and images.";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })
    }

    /// Has a picture made and keeps it: `{url, mimeType, model, cost}`.
    pub(crate) async fn make_image(&self, context: &CallContext, wanted: &ImageWanted) -> Answer<Value> {
        let (account, app) = (account_of(context)?, app_of(context));
        let _seat = Seat::take(&self.0.media, account, app)?;
        assets::has_room(self, account, IMAGE_ROOM)?;
        let (row, model) = self.painter(context, wanted.model.as_deref()).await?;
        let endpoint = self.connection_endpoint(account, &row, app)?;
        let (size, quality) = (wanted.size.as_deref(), wanted.quality.as_deref());
        let what = What::Images {
            count: 1,
            size,
            quality,
        };
        let reserved = self
            .spend()
            .reserve(context, &endpoint, &model, what)
            .map_err(over_limit)?;
        let mut line = Line::begin(self, context, &endpoint, &model, "a picture".into());
        let request = ImageRequest {
            prompt: &wanted.prompt,
            model: &model,
            size,
            quality,
        };
        let made = match providers::image(context, self.net(), &endpoint, &request).await {
            Ok(made) => made,
            Err(error) => {
                line.end("failed", Some(&error.to_string()), 0, None);
                settle_failure(reserved, &error);
                return Err(failed(&error, app));
            }
        };
        let cost = reserved.settle(Truth::Images {
            count: 1,
            cost: made.cost,
        });
        line.end("done", None, made.bytes.len(), cost);
        let asset = self.keep(account, app, made.mime, "picture", made.bytes).await?;
        Ok(json!({
            "url": format!("/v1/assets/{}", asset.id), "mimeType": made.mime, "model": format!("{}/{model}", row.id),
            "cost": cost,
        }))
    }

    async fn keep(
        &self,
        account: &AccountId,
        app: Option<&AppId>,
        mime: &'static str,
        what: &str,
        bytes: Vec<u8>,
    ) -> Answer<AssetRow> {
        let ending = mime.split_once('/').map_or("bin", |(_, kind)| match kind {
            "mpeg" => "mp3",
            kind => kind,
        });
        let name = format!("{what}.{ending}");
        assets::store(self, account.clone(), app.cloned(), mime.to_owned(), name, bytes.into()).await
    }

    /// Everyone who can read aloud: speech servers, then connections with a model for it that the app may use.
    pub(crate) async fn speakers(&self, context: &CallContext) -> Answer<Vec<Speaker>> {
        let account = account_of(context)?;
        let mut all: Vec<Speaker> = self
            .db()
            .speech_endpoints(account)?
            .into_iter()
            .map(Speaker::Server)
            .collect();
        for model in self.models_that(context, providers::speaks).await? {
            if all.iter().any(|speaker| speaker.id() == model.connection) {
                continue;
            }
            if let Some(row) = self.db().connection(account, &model.connection)? {
                all.push(Speaker::Connection(row, model.id));
            }
        }
        Ok(all)
    }

    /// The voices of one of them, as it said at most a minute ago.
    pub(crate) async fn voices_of(&self, context: &CallContext, speaker: &Speaker) -> Result<Vec<Voice>, String> {
        let account = account_of(context).map_err(|error| error.message)?;
        let slot = (account.clone(), speaker.id().to_owned());
        if let Some((at, known)) = self.0.media.voices.lock().get(&slot)
            && at.elapsed() < VOICES_AGE
        {
            return known.clone();
        }
        let endpoint = match speaker {
            Speaker::Server(row) => self.speech_endpoint(account, row, None),
            Speaker::Connection(row, _) => self.connection_endpoint(account, row, None),
        };
        let found = match endpoint {
            Ok(endpoint) => providers::voices(context, self.net(), &endpoint)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.message),
        };
        let mut voices = self.0.media.voices.lock();
        if voices.len() >= VOICE_LISTS {
            voices.clear();
        }
        voices.insert(slot, (Instant::now(), found.clone()));
        found
    }

    /// Whether a server is known to have a voice; it is not asked.
    fn has_voice(&self, account: &AccountId, speaker: &Speaker, voice: &str) -> bool {
        let slot = (account.clone(), speaker.id().to_owned());
        let voices = self.0.media.voices.lock();
        let known = voices.get(&slot).and_then(|(_, known)| known.as_ref().ok());
        known.is_some_and(|known| known.iter().any(|one| one.id == voice))
    }

    async fn speaker(&self, context: &CallContext, wanted: &SpeechWanted, voice: Option<&str>) -> Answer<Speaker> {
        let (account, app) = (account_of(context)?, app_of(context));
        // `connection/model` names a connection, too.
        let model = wanted.model.as_deref().unwrap_or_default();
        let of_model = match model.split_once('/') {
            Some((connection, _)) => self.db().connection(account, connection)?.map(|row| row.id),
            None => None,
        };
        if let Some(id) = wanted.from.as_ref().or(of_model.as_ref()) {
            let servers = self.db().speech_endpoints(account)?;
            if let Some(row) = servers.into_iter().find(|row| row.id == *id) {
                return Ok(Speaker::Server(row));
            }
            let row = self.db().connection(account, id)?.filter(|_| !wanted.servers_only);
            let row = row.ok_or_else(|| ApiError::missing("There is no such speech server or connection."))?;
            let of_row = self.models_that(context, providers::speaks).await?;
            let of_row = of_row.into_iter().find(|model| model.connection == row.id);
            let model = of_row.map_or_else(|| SPEECH_MODEL.to_owned(), |model| model.id);
            return Ok(Speaker::Connection(row, model));
        }
        let mut all = self.speakers(context).await?;
        all.retain(|speaker| !wanted.servers_only || matches!(speaker, Speaker::Server(_)));
        let set = self.set_text(account, "speechFrom")?;
        let of_set = all.iter().position(|speaker| set.as_deref() == Some(speaker.id()));
        let of_voice = || {
            all.iter()
                .position(|one| voice.is_some_and(|voice| self.has_voice(account, one, voice)))
        };
        let at = of_set.or_else(of_voice).unwrap_or(0);
        if at < all.len() {
            return Ok(all.swap_remove(at));
        }
        let mut why =
            "Nothing that reads aloud is set up. Add a speech server in the launcher under Settings → Speech \
                       and images."
                .to_owned();
        if app.is_some() {
            why += " Only the person can do that.";
        }
        Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why))
    }

    /// Has a text read and keeps the sound: `{dataUrl, url, mimeType, provider, voice, model, cost, endpoint|connection}`.
    pub(crate) async fn speak(&self, context: &CallContext, wanted: &SpeechWanted) -> Answer<Value> {
        let (account, app) = (account_of(context)?, app_of(context));
        let _seat = Seat::take(&self.0.media, account, app)?;
        assets::has_room(self, account, SOUND_ROOM)?;
        let set = self.set_text(account, "speechVoice")?;
        let asked = wanted.voice.as_deref();
        let speaker = self.speaker(context, wanted, asked.or(set.as_deref())).await?;
        // The voice that is set may be another server's.
        let set = set.filter(|set| self.has_voice(account, &speaker, set));
        let (endpoint, model, voice) = match &speaker {
            Speaker::Server(row) => {
                let own = row.model.clone().unwrap_or_else(|| SPEECH_MODEL.into());
                (self.speech_endpoint(account, row, app)?, own, row.voice.clone())
            }
            Speaker::Connection(row, model) => (self.connection_endpoint(account, row, app)?, model.clone(), None),
        };
        let model = match wanted.model.as_deref() {
            Some(asked) => asked
                .strip_prefix(speaker.id())
                .and_then(|rest| rest.strip_prefix('/'))
                .unwrap_or(asked)
                .to_owned(),
            None => model,
        };
        if let Speaker::Connection(row, _) = &speaker {
            self.may_use(account, app, &format!("{}/{model}", row.id))
                .map_err(|why| ApiError::forbidden(why).code("refused"))?;
        }
        let voice = asked
            .map(str::to_owned)
            .or(set)
            .or(voice)
            .unwrap_or_else(|| VOICE.into());
        let speed = match wanted.speed {
            Some(speed) => Some(speed),
            None => self
                .db()
                .setting(account, "speechSpeed")?
                .and_then(|speed| speed.as_f64()),
        };
        let characters = wanted.text.chars().count() as u64;
        let what = What::Speech { characters };
        let reserved = self
            .spend()
            .reserve(context, &endpoint, &model, what)
            .map_err(over_limit)?;
        let detail = format!("{characters} characters read aloud");
        let mut line = Line::begin(self, context, &endpoint, &model, detail);
        let request = SpeechRequest {
            text: &wanted.text,
            model: &model,
            voice: &voice,
            speed,
            format: wanted.format,
        };
        let sound = match providers::speech(context, self.net(), &endpoint, &request).await {
            Ok(sound) => sound,
            Err(error) => {
                line.end("failed", Some(&error.to_string()), 0, None);
                settle_failure(reserved, &error);
                return Err(failed(&error, app));
            }
        };
        let cost = reserved.settle(Truth::Speech { ms: sound.ms });
        line.end("done", None, sound.bytes.len(), cost);
        let base64 = base64::engine::general_purpose::STANDARD.encode(&sound.bytes);
        let asset = self.keep(account, app, sound.mime, "speech", sound.bytes).await?;
        let mut answer = json!({
            "dataUrl": format!("data:{};base64,{base64}", sound.mime), "url": format!("/v1/assets/{}", asset.id),
            "mimeType": sound.mime, "provider": speaker.kind(), "voice": voice, "model": model, "cost": cost,
        });
        answer[speaker.kind()] = speaker.id().into();
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_no_more() {
        let (media, account) = (Media::default(), AccountId::random());
        let (a, b) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        let mut seats: Vec<_> = (0..AT_ONCE)
            .map(|_| Seat::take(&media, &account, Some(&a)).unwrap())
            .collect();
        let refused = Seat::take(&media, &account, Some(&a)).err().unwrap();
        assert_eq!(
            (refused.status, refused.code),
            (StatusCode::TOO_MANY_REQUESTS, Some("busy"))
        );
        assert!(Seat::take(&media, &account, Some(&b)).is_ok() && Seat::take(&media, &account, None).is_ok());
        seats.pop();
        seats.push(Seat::take(&media, &account, Some(&a)).unwrap());
        drop(seats);
        assert!(media.running.lock().is_empty());
    }
}
