//! What is switched off in an app page's WebKit, besides what the page's policy forbids.

use std::ffi::{CStr, c_char};

use gtk::glib::translate::ToGlibPtr;
use webkit2gtk::{SettingsExt, WebView, WebViewExt};

/// Ways to the network or to devices, by WebKit's own names. The first seven are not closed by the content policy; the
/// others are a second lock on doors that it does close. The list is WebKit's: names come and go with its versions, and
/// one that is not there needs no switching off.
const OFF: [&str; 24] = [
    "LinkPreconnect",
    "LinkPreconnectEarlyHints",
    "LinkPrefetch",
    "LinkPreload",
    "LinkModulePreload",
    "LinkDNSPrefetch",
    "HyperlinkAuditing",
    "BeaconAPI",
    "BroadcastChannel",
    "Gamepad",
    "Gamepads",
    "GeolocationAPI",
    "MediaDevices",
    "Notifications",
    "PeerConnection",
    "PushAPI",
    "ScreenCapture",
    "ServiceWorkers",
    "SharedWorker",
    "SpeechRecognition",
    "WebShare",
    "WebSocket",
    "WebTransport",
    "WebXR",
];

#[repr(C)]
struct FeatureList {
    _opaque: [u8; 0],
}
#[repr(C)]
struct Feature {
    _opaque: [u8; 0],
}

// Since WebKitGTK 2.42; not in the bindings.
unsafe extern "C" {
    fn webkit_settings_get_all_features() -> *mut FeatureList;
    fn webkit_feature_list_get_length(list: *mut FeatureList) -> usize;
    fn webkit_feature_list_get(list: *mut FeatureList, index: usize) -> *mut Feature;
    fn webkit_feature_list_unref(list: *mut FeatureList);
    fn webkit_feature_get_identifier(feature: *mut Feature) -> *const c_char;
    fn webkit_settings_set_feature_enabled(
        settings: *mut webkit2gtk::ffi::WebKitSettings,
        feature: *mut Feature,
        enabled: i32,
    );
}

/// To be called before the first page is loaded.
pub fn switch_off(webview: &WebView) {
    let Some(settings) = WebViewExt::settings(webview) else {
        return;
    };
    settings.set_enable_developer_extras(false);
    settings.set_enable_dns_prefetching(false);
    settings.set_enable_encrypted_media(false);
    // A page over the whole screen could draw a bar like ours.
    settings.set_enable_fullscreen(false);
    settings.set_enable_html5_database(false);
    settings.set_enable_media_stream(false);
    settings.set_enable_page_cache(false);
    settings.set_enable_webrtc(false);
    settings.set_javascript_can_access_clipboard(false);
    settings.set_javascript_can_open_windows_automatically(false);
    let mut missing: Vec<&str> = OFF.to_vec();
    // SAFETY: the list and its features live until the unref; identifiers are NUL-terminated and belong to them; the
    // settings are alive for as long as `settings` is.
    unsafe {
        let list = webkit_settings_get_all_features();
        if list.is_null() {
            return;
        }
        for index in 0..webkit_feature_list_get_length(list) {
            let feature = webkit_feature_list_get(list, index);
            let identifier = webkit_feature_get_identifier(feature);
            if identifier.is_null() {
                continue;
            }
            let name = CStr::from_ptr(identifier).to_bytes();
            if let Some(at) = missing.iter().position(|off| off.as_bytes() == name) {
                webkit_settings_set_feature_enabled(settings.to_glib_none().0, feature, 0);
                missing.swap_remove(at);
            }
        }
        webkit_feature_list_unref(list);
    }
    tracing::debug!(?missing, "switches that this WebKit does not have");
}
