use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_DNS_PREFETCH_CONTROL,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use policy::AppId;

/// What a page may load and who may frame it, as the headers of every answer to it.
#[derive(Debug, Clone)]
pub struct PagePolicy {
    content: HeaderValue,
}

/// Switched off for every page, whatever the person would answer.
const PERMISSIONS: &str = "accelerometer=(), attribution-reporting=(), bluetooth=(), browsing-topics=(), camera=(), \
    clipboard-read=(), display-capture=(), gamepad=(), geolocation=(), gyroscope=(), hid=(), \
    identity-credentials-get=(), idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), \
    payment=(), publickey-credentials-create=(), publickey-credentials-get=(), serial=(), storage-access=(), usb=(), \
    window-management=(), xr-spatial-tracking=()";

impl PagePolicy {
    /// For the app's own window on the desktop: files come from `chrysalis-app://<app>`, and nothing frames them.
    ///
    /// `'self'` stands beside the address, because web engines differ in which of the two they match in a page whose
    /// origin is opaque; both mean the same files.
    pub fn window(app: &AppId) -> Self {
        Self::of(&format!("'self' chrysalis-app://{app}"), "'none'")
    }

    /// For a frame of the launcher in a browser: files come from `<origin>/frame/<token>/` alone, not from the whole
    /// origin, and only pages of `origin` (`http://127.0.0.1:PORT`) frame them.
    ///
    /// Text that could not stand in a policy leaves the page with nothing at all.
    pub fn frame(origin: &str, token: &str) -> Self {
        let plain =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:/".contains(&b));
        if !plain(origin) || !plain(token) {
            return Self::of("'none'", "'none'");
        }
        Self::of(&format!("{origin}/frame/{token}/"), origin)
    }

    fn of(source: &str, ancestors: &str) -> Self {
        // Measured: design/desktop.md "Policy that held", design/browser.md and contract section 5.4; without its
        // `allow-downloads`, with which a page drops files into the person's folder unasked.
        let beside = |more: &str| {
            if source == "'none'" {
                source.to_owned()
            } else {
                format!("{source} {more}")
            }
        };
        let content = format!(
            "default-src 'none'; script-src {}; style-src {}; img-src {}; media-src {}; font-src {}; \
             connect-src 'none'; form-action 'none'; base-uri 'none'; object-src 'none'; frame-src 'none'; \
             worker-src 'none'; frame-ancestors {ancestors}; webrtc 'block'; \
             sandbox allow-scripts allow-forms",
            beside("'wasm-unsafe-eval'"),
            beside("'unsafe-inline'"),
            beside("data: blob:"),
            beside("data: blob:"),
            beside("data:"),
        );
        let content = HeaderValue::from_str(&content).expect("sources are checked to be plain ASCII");
        Self { content }
    }

    /// The `Content-Security-Policy` of every answer.
    pub fn content_security_policy(&self) -> &HeaderValue {
        &self.content
    }

    /// Puts every header of the policy on an answer, in place of what stands there under the same names.
    pub fn apply(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_SECURITY_POLICY, self.content.clone());
        let fixed = [
            // Names the origin that served the page; in Chromium no packet leaves with it, WebRTC included.
            (HeaderName::from_static("connection-allowlist"), "(response-origin)"),
            (HeaderName::from_static("permissions-policy"), PERMISSIONS),
            (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
            // The page's origin is opaque, so its own module scripts and fonts are cross-origin requests.
            (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_DNS_PREFETCH_CONTROL, "off"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-cache"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_word_for_word_what_was_measured() {
        let policy = PagePolicy::frame("http://127.0.0.1:8080", "abc");
        assert_eq!(
            policy.content_security_policy(),
            "default-src 'none'; script-src http://127.0.0.1:8080/frame/abc/ 'wasm-unsafe-eval'; \
             style-src http://127.0.0.1:8080/frame/abc/ 'unsafe-inline'; \
             img-src http://127.0.0.1:8080/frame/abc/ data: blob:; \
             media-src http://127.0.0.1:8080/frame/abc/ data: blob:; \
             font-src http://127.0.0.1:8080/frame/abc/ data:; connect-src 'none'; form-action 'none'; \
             base-uri 'none'; object-src 'none'; frame-src 'none'; worker-src 'none'; \
             frame-ancestors http://127.0.0.1:8080; webrtc 'block'; \
             sandbox allow-scripts allow-forms"
        );
        let window = PagePolicy::window(&AppId::parse("chat").unwrap());
        let text = window.content_security_policy().to_str().unwrap();
        assert!(
            text.contains("script-src 'self' chrysalis-app://chat 'wasm-unsafe-eval';"),
            "{text}"
        );
        assert!(text.contains("frame-ancestors 'none';"), "{text}");
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_policy() {
        for (origin, token) in [
            ("http://a; script-src *", "t"),
            ("http://a", "t *"),
            ("http://a\r\nX: y", "t"),
            ("http://ä", "t"),
            ("http://a", ""),
            ("http://a", "t;"),
            ("*", "t"),
        ] {
            let policy = PagePolicy::frame(origin, token);
            let text = policy.content_security_policy().to_str().unwrap();
            assert!(
                text.contains("script-src 'none';") && text.contains("frame-ancestors 'none';"),
                "{text}"
            );
        }
    }
}
