//! The one router. A route cannot be registered without saying who may use it, and what is not in the table is refused.

use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, any, on};
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use policy::{Access, AccountId, AppId, CallContext, Caller, Callers, Condition};
use serde::de::DeserializeOwned;

use crate::Engine;
use crate::error::ApiError;

/// Collects routes together with who may use them.
pub struct Table {
    router: Router<Engine>,
    access: Vec<Access>,
    engine: Engine,
}

impl Table {
    pub fn new(engine: Engine) -> Self {
        Self {
            router: Router::new(),
            access: Vec::new(),
            engine,
        }
    }

    /// Adds a route. `method` is one of HTTP's, or `*` for any.
    pub fn route<H, T>(
        mut self,
        method: &'static str,
        pattern: &'static str,
        callers: Callers,
        condition: Condition,
        handler: H,
    ) -> Self
    where
        H: axum::handler::Handler<T, Engine>,
        T: 'static,
    {
        let access = Access {
            method,
            pattern,
            callers,
            condition,
        };
        self.access.push(access);
        let methods: MethodRouter<Engine> = match method {
            "*" => any(handler),
            "GET" => on(MethodFilter::GET, handler),
            "POST" => on(MethodFilter::POST, handler),
            "PUT" => on(MethodFilter::PUT, handler),
            "PATCH" => on(MethodFilter::PATCH, handler),
            "DELETE" => on(MethodFilter::DELETE, handler),
            other => panic!("{other} is no method of the table"),
        };
        let check = move |State(engine): State<Engine>, params: RawPathParams, request: Request, next: Next| async move {
            check(access, engine, params, request, next).await
        };
        self.router = self.router.route(
            pattern,
            methods.layer(middleware::from_fn_with_state(self.engine.clone(), check)),
        );
        self
    }

    pub fn finish(self) -> (Router<Engine>, Vec<Access>) {
        (
            self.router.fallback(nothing).method_not_allowed_fallback(wrong_method),
            self.access,
        )
    }
}

async fn check(access: Access, engine: Engine, params: RawPathParams, request: Request, next: Next) -> Response {
    let named = |name: &str| {
        params
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value.to_owned())
    };
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    if access.allows(&caller, named("app").as_deref(), named("rest").as_deref()) {
        match access.condition == Condition::OfficialApp && !official(&engine, &caller) {
            false => return next.run(request).await,
            true => return refuse(&engine, &request, &caller),
        }
    }
    refuse(&engine, &request, &caller)
}

/// Whether an app came in the box. What its own files say does not count; everyone else is none of this.
fn official(engine: &Engine, caller: &Caller) -> bool {
    let Caller::App { account, app } = caller else {
        return true;
    };
    let installs = engine.db().installs(account);
    installs.is_ok_and(|installs| installs.get(app.as_str()).is_some_and(|source| source == "box"))
}

fn refuse(engine: &Engine, request: &Request, caller: &Caller) -> Response {
    let target = format!("{} {}", request.method(), request.uri().path());
    if *caller == Caller::Nobody {
        return ApiError::new(StatusCode::UNAUTHORIZED, "Sign in first.").into_response();
    }
    let why = format!("{} may not use {target}", caller.label());
    engine.refused(caller, &target, &why);
    ApiError::forbidden(why).code("refused").into_response()
}

/// What no route answers: a refusal for pages, so that they cannot tell absent from forbidden; 404 for people.
async fn nothing(State(engine): State<Engine>, request: Request) -> Response {
    match request.extensions().get::<Caller>().cloned() {
        Some(Caller::Owner { .. } | Caller::CommandLine { .. }) => {
            ApiError::missing(format!("There is no {} {}.", request.method(), request.uri().path())).into_response()
        }
        caller => refuse(&engine, &request, &caller.unwrap_or(Caller::Nobody)),
    }
}

async fn wrong_method(State(engine): State<Engine>, request: Request) -> Response {
    match request.extensions().get::<Caller>().cloned() {
        Some(Caller::Owner { .. } | Caller::CommandLine { .. }) => {
            let message = format!("{} does not take {}.", request.uri().path(), request.method());
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).into_response()
        }
        caller => refuse(&engine, &request, &caller.unwrap_or(Caller::Nobody)),
    }
}

/// Refuses every path with a second spelling: whatever sees it next must see the same route and the same parts.
pub fn canonical(path: &str) -> Result<(), ApiError> {
    let odd = |what: &str| Err(ApiError::bad(format!("This address is not accepted: {what}.")));
    if !path.starts_with('/') {
        return odd("it does not start with a slash");
    }
    if path.len() > 4096 {
        return odd("it is longer than 4096 bytes");
    }
    if path.contains('\\') {
        return odd("it has a backslash");
    }
    for segment in path[1..].split('/') {
        let Ok(decoded) = percent_decode_str(segment).decode_utf8() else {
            return odd("it is not UTF-8");
        };
        let escapes = segment.match_indices('%').all(|(at, _)| {
            segment
                .get(at + 1..at + 3)
                .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        if !escapes {
            return odd("it has a broken % escape");
        }
        if decoded.contains(['/', '\\']) || decoded.chars().any(char::is_control) {
            return odd("it hides a separator or a control character");
        }
        if decoded == "." || decoded == ".." {
            return odd("it has dot segments");
        }
    }
    let body = path.trim_end_matches('/');
    if body.contains("//") || path.len() - body.len() > 1 {
        return odd("it has empty segments");
    }
    Ok(())
}

/// Proof that a person asks (launcher window, session or command line).
pub struct Person {
    pub account: AccountId,
    pub caller: Caller,
}

impl<S: Sync> FromRequestParts<S> for Person {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<Caller>() {
            Some(caller @ (Caller::Owner { account } | Caller::CommandLine { account })) => Ok(Self {
                account: account.clone(),
                caller: caller.clone(),
            }),
            _ => Err(ApiError::forbidden("Only the person may do this.").code("refused")),
        }
    }
}

/// Proof that the caller may act for the app named in the path: its own page, or the person.
pub struct AppOf {
    pub account: AccountId,
    pub app: AppId,
}

impl FromRequestParts<Engine> for AppOf {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &Engine) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::bad("This address is not accepted: its parts are not UTF-8."))?;
        let named = params
            .iter()
            .find(|(name, _)| *name == "app")
            .map(|(_, value)| value.to_owned());
        let app = AppId::parse(named.as_deref().unwrap_or_default())?;
        let account = match &caller {
            Caller::Owner { account } | Caller::CommandLine { account } => account,
            Caller::App { account, app: own } if *own == app => account,
            _ => return Err(ApiError::forbidden("This app is not yours.").code("refused")),
        };
        Ok(Self {
            account: account.clone(),
            app,
        })
    }
}

/// Whoever asks, person or page.
pub struct Asker {
    pub account: AccountId,
    pub caller: Caller,
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
        match caller.account() {
            Some(account) => Ok(Self {
                account: account.clone(),
                caller: caller.clone(),
            }),
            None => Err(ApiError::new(StatusCode::UNAUTHORIZED, "Sign in first.")),
        }
    }
}

/// The context of the call being served.
pub struct Context(pub CallContext);

impl<S: Sync> FromRequestParts<S> for Context {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<CallContext>()
            .cloned()
            .map(Context)
            .ok_or_else(|| ApiError::bad("This call has no context."))
    }
}

/// A JSON body. One that cannot be read is answered like every other error.
pub struct Given<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Given<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(why) => Err(unreadable(why.status(), &why.body_text())),
        }
    }
}

/// What stands behind the `?`, likewise.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(why) => Err(unreadable(why.status(), &why.body_text())),
        }
    }
}

fn unreadable(status: StatusCode, why: &str) -> ApiError {
    // The library's sentence ends in the field and what is wrong with it.
    let why = why.split_once("target type: ").map_or(why, |(_, end)| end);
    let why: String = why.chars().take(200).collect();
    ApiError::new(status, format!("This request cannot be read: {why}.")).code("unreadable")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn one_spelling_per_address() {
        for good in [
            "/",
            "/v1/health",
            "/v1/apps/a/x%20y",
            "/v1/apps/a/%E2%82%AC",
            "/v1/apps/a/x/",
            "/v1/apps/a/..x",
        ] {
            assert!(canonical(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "v1",
            "//v1/health",
            "/v1//health",
            "/v1/health//",
            "/v1/./health",
            "/v1/../v1/health",
            "/v1/%2e%2e/x",
            "/v1/%2E/x",
            "/v1/apps%2fa",
            "/v1/apps%2Fa",
            "/v1/apps%5ca",
            "/v1\\apps",
            "/v1/%00",
            "/v1/%0a",
            "/v1/%",
            "/v1/%4",
            "/v1/%zz",
            "/v1/%ff",
        ] {
            assert!(canonical(bad).is_err(), "{bad}");
        }
    }
}
