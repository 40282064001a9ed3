//! Errors of `/v1`: a status, a sentence for people, and a code where clients must tell cases apart.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use secrets::VaultError;
use serde_json::json;

/// What a handler answers when it cannot do what was asked.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    pub code: Option<&'static str>,
}

pub type Answer<T = Response> = Result<T, ApiError>;

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            code: None,
        }
    }
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let Some(code) = self.code {
            body["code"] = code.into();
        }
        (self.status, Json(body)).into_response()
    }
}

impl From<db::DbError> for ApiError {
    fn from(error: db::DbError) -> Self {
        match error {
            db::DbError::Quota { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()).code("quota"),
            db::DbError::DiskFull => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "The disk is full and nothing was changed: free some space and try again.",
            )
            .code("full"),
            db::DbError::NameTaken(_) => Self::conflict(error.to_string()),
            other => {
                tracing::error!(error = %other, "database");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The database could not be read or written; nothing was changed. The log says why.",
                )
            }
        }
    }
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        let (status, code) = match &error {
            VaultError::ChooseStore => (StatusCode::CONFLICT, Some("choose_key_store")),
            VaultError::Locked(_) => (StatusCode::CONFLICT, Some("key_store_locked")),
            VaultError::Configured => (StatusCode::CONFLICT, Some("configured")),
            VaultError::WrongPassphrase => (StatusCode::FORBIDDEN, Some("passphrase")),
            VaultError::NotSaved(_) | VaultError::NotMoved(_) | VaultError::StillKept(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, Some("key_store"))
            }
            _ => (StatusCode::BAD_REQUEST, None),
        };
        let mut text = error.to_string();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let full_stop = if text.ends_with(['.', ')']) { "" } else { "." };
        Self {
            status,
            message: text + full_stop,
            code,
        }
    }
}

impl From<policy::IdError> for ApiError {
    fn from(error: policy::IdError) -> Self {
        Self::bad(error.to_string())
    }
}
