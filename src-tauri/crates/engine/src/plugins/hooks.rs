//! The hook chain: plugins that look at, and change, model requests and answers (contract section 3.3).

use apps::host::Entry;
use apps::plugin_call::{Hook, global_id};
use policy::{AppId, CallContext, Caller, Capability};
use serde_json::{Map, Value, json};

use super::{Owned, Room};
use crate::Engine;

/// Whose request it is.
pub(crate) struct Asking<'a> {
    pub context: &'a CallContext,
    pub from: Entry,
    /// The name the plugin gave its request; empty for awaited ones.
    pub key: &'a str,
}

/// What one field of a patch must look like.
type Shape = fn(&Value) -> bool;

/// Fields of a request a hook may set (contract section 3.3). Never tools, their executor, or the source.
const REQUEST_FIELDS: [(&str, Shape); 14] = [
    ("messages", Value::is_array),
    ("systemPrompt", Value::is_string),
    ("model", Value::is_string),
    ("sessionId", Value::is_string),
    ("reasoning", Value::is_string),
    ("thinkingBudget", Value::is_number),
    ("reasoningTags", Value::is_object),
    ("assistantPrefill", Value::is_string),
    ("promptFormat", text_or_object),
    ("presetParams", Value::is_object),
    ("cache", Value::is_object),
    ("schema", Value::is_object),
    ("streamMuted", Value::is_boolean),
    ("streamDecode", Value::is_object),
];

/// Fields of an answer a hook may set. Never the model or the usage.
const RESPONSE_FIELDS: [(&str, Shape); 4] = [
    ("text", Value::is_string),
    ("json", any),
    ("reasoning", Value::is_string),
    ("assistantPrefill", Value::is_string),
];

fn any(_: &Value) -> bool {
    true
}

fn text_or_object(value: &Value) -> bool {
    value.is_string() || value.is_object()
}

impl Engine {
    /// Runs the chain over a request, or over the answer to one. In ascending priority, then by id; what a later hook sets
    /// replaces what an earlier one set; one that fails is skipped.
    pub(crate) async fn hooks(&self, asking: &Asking<'_>, hook: Hook, request: &mut Value, result: &mut Value) {
        // Requests that hooks make themselves never meet the chain again, nor do those of tools and of who offers them.
        if matches!(asking.from, Entry::Hook | Entry::Tool | Entry::AppTools) {
            return;
        }
        let Some(Caller::Plugin { account, app, plugin }) = asking.context.chain.last() else {
            return;
        };
        let Ok(room) = self.room(account) else { return };
        let asker = global_id(app, plugin);
        for of in self.hooked(&room, app) {
            let seen = shown(request, &asker);
            let about = match hook {
                Hook::Request => json!({"request": seen, "plugin": asker, "key": asking.key}),
                Hook::Response => json!({"request": seen, "result": result, "plugin": asker, "key": asking.key}),
            };
            let patch = match self
                .plugins()
                .hook(&room.target(asking.context, &of), hook, about)
                .await
            {
                Ok(Some(patch)) => patch,
                Ok(None) => continue,
                Err(error) => {
                    self.note_failure(asking.context, &of, hook.export(), &error);
                    continue;
                }
            };
            match hook {
                Hook::Request => {
                    let mut patched = request.clone();
                    apply(&mut patched, patch, &REQUEST_FIELDS);
                    // A patch that makes the request unreadable is that hook's crash and not the asker's.
                    match crate::generate::check(&patched) {
                        Ok(_) => *request = patched,
                        Err(why) => self.plugin_failed(asking.context, &of.app, &of.plugin.id, hook.export(), &why),
                    }
                }
                Hook::Response => apply(result, patch, &RESPONSE_FIELDS),
            }
        }
    }

    /// The plugins of the app, and those that belong to no app, whose hooks may run.
    fn hooked(&self, room: &Room, app: &AppId) -> Vec<Owned> {
        let mut found = self.usable(room, app);
        if !app.is_shelf() {
            found.extend(self.usable(room, &AppId::shelf()));
        }
        let may = |of: &Owned, capability| self.plugins().allowed(&room.account, &of.app, &of.plugin, capability);
        found.retain(|of| may(of, Capability::Hooks) && may(of, Capability::Llm));
        found.sort_by(|a, b| {
            let (one, other) = (&a.plugin, &b.plugin);
            one.manifest
                .priority
                .total_cmp(&other.manifest.priority)
                .then_with(|| one.id.as_str().cmp(other.id.as_str()))
        });
        found
    }
}

/// The request as hooks see it, with the engine's own word on whose it is.
fn shown(request: &Value, asker: &str) -> Value {
    let mut seen = request.clone();
    if let Some(fields) = seen.as_object_mut() {
        fields.remove("tools");
        fields.insert("source".into(), format!("app:{asker}").into());
    }
    seen
}

/// Sets the fields of a patch that may be set and have the right shape; the others are ignored one by one. `null` takes a
/// field away.
fn apply(to: &mut Value, patch: Map<String, Value>, fields: &[(&str, Shape)]) {
    let Some(to) = to.as_object_mut() else { return };
    for (name, value) in patch {
        let Some((_, fits)) = fields.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        if value.is_null() && name != "json" {
            to.remove(&name);
        } else if fits(&value) {
            to.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_request_patch_sets_what_it_may() {
        let mut request = json!({"messages": [1], "model": "a", "reasoning": "low"});
        let given = json!({
            "messages": [2], "model": 5, "tools": [{"name": "x"}], "executeTool": "x", "source": "me", "reasoning": null,
            "streamMuted": true, "wantsTools": true, "stream": {"chatId": "other"},
        });
        apply(&mut request, patch(given), &REQUEST_FIELDS);
        assert_eq!(request, json!({"messages": [2], "model": "a", "streamMuted": true}));
    }

    #[test]
    fn a_response_patch_leaves_model_and_usage() {
        let mut result = json!({"text": "a", "model": "m", "usage": {"input": 1}});
        let given = json!({"text": "b", "model": "x", "usage": {}, "json": [1], "reasoning": 5, "toolTrace": []});
        apply(&mut result, patch(given), &RESPONSE_FIELDS);
        assert_eq!(
            result,
            json!({"text": "b", "model": "m", "usage": {"input": 1}, "json": [1]})
        );
    }

    #[test]
    fn the_source_is_the_engines_word() {
        let seen = shown(&json!({"source": "agent", "tools": [], "messages": []}), "a__p");
        assert_eq!(seen, json!({"source": "app:a__p", "messages": []}));
    }
}
