//! Takes the message handler out of the page's hands.
//!
//! A page that can call the handler itself can fill the one thread that draws all windows faster than that thread can
//! end the page, or hand it a string of any length. So the handler lives in a script world of its own, and a script
//! there lets the page's messages through at a bounded pace. It is the first of two checks, not the only one: a page
//! that broke out of its script engine is still bounded by the host's.

use webkit2gtk::{
    UserContentInjectedFrames, UserContentManagerExt, UserScript, UserScriptInjectionTime, WebView, WebViewExt,
};

const WORLD: &str = "chrysalis";
/// The name that wry listens for.
const HANDLER: &str = "ipc";

/// To be called before the first page is loaded.
pub fn put_between(webview: &WebView) -> Result<(), String> {
    let manager = webview
        .user_content_manager()
        .ok_or("the page's webview has no content manager")?;
    // wry's own script and handler, both in the page's world.
    manager.remove_all_scripts();
    manager.unregister_script_message_handler(HANDLER);
    if !manager.register_script_message_handler_in_world(HANDLER, WORLD) {
        return Err("the page's message handler could not be made".into());
    }
    let (frames, start) = (UserContentInjectedFrames::TopFrame, UserScriptInjectionTime::Start);
    manager.add_script(&UserScript::for_world(
        include_str!("relay.js"),
        frames,
        start,
        WORLD,
        &[],
        &[],
    ));
    manager.add_script(&UserScript::new(include_str!("page.js"), frames, start, &[], &[]));
    Ok(())
}
