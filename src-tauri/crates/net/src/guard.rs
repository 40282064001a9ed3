use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::Span;

/// Looks names up. The program uses [`SystemResolver`]; tests bring their own.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of `host`, or why there are none.
    fn resolve(&self, host: String) -> BoxFuture<'static, Result<Vec<IpAddr>, String>>;
}

/// The operating system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        Box::pin(async move {
            let answers = tokio::net::lookup_host((host.as_str(), 0))
                .await
                .map_err(|error| error.to_string())?;
            Ok(answers.map(|address| address.ip()).collect())
        })
    }
}

/// Why a name led nowhere; found again in the error chain of the HTTP client.
#[derive(Debug, Clone)]
pub(crate) enum LookupError {
    Failed(String),
    Forbidden(&'static str),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => f.write_str(why),
            Self::Forbidden(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LookupError {}

/// Stands between the HTTP client and the resolver: a name is looked up once for each connection, every answer must be
/// within the span, and the connection goes to the very addresses that were checked. (Addresses spelled out in a URL do
/// not come through here; [`crate::CheckedUrl`] checks those.)
pub(crate) struct Guard {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) span: Span,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        let answers = self.resolver.resolve(host.clone());
        let span = self.span;
        Box::pin(async move {
            let answers = answers.await.map_err(LookupError::Failed)?;
            if answers.is_empty() {
                return Err(LookupError::Failed("the name has no address".into()).into());
            }
            // One bad answer spoils the name: picking the good ones would let a hostile server choose when to lie.
            if !answers.iter().all(|address| span.allows(&host, false, *address)) {
                let why = match span {
                    Span::Typed if !crate::address::is_local_name(&host) => {
                        "this public name points to an address that is not public; \
                         if it is your own server, enter its IP address instead"
                    }
                    span => span.out_of_reach(),
                };
                return Err(LookupError::Forbidden(why).into());
            }
            // Port 0 is replaced by the URL's port or the scheme's own.
            let addresses: Addrs = Box::new(answers.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
