//! What `import` finds in a plugin: nothing but inert stand-ins for a few Node modules.
//!
//! Plugins of the reference engine may import `node:fs` and friends without failing, as long as they do not use them.

use rquickjs::{
    Ctx, Error, Module, Result,
    loader::{ImportAttributes, Loader, Resolver},
    module::Declared,
};

/// Names such a module exports, so that `import { readFileSync } from "node:fs"` links. Each of them throws.
const NAMES: &[(&str, &[&str])] = &[
    (
        "fs",
        &[
            "access",
            "accessSync",
            "appendFile",
            "appendFileSync",
            "copyFile",
            "copyFileSync",
            "createReadStream",
            "createWriteStream",
            "exists",
            "existsSync",
            "lstat",
            "lstatSync",
            "mkdir",
            "mkdirSync",
            "mkdtempSync",
            "open",
            "openSync",
            "readFile",
            "readFileSync",
            "readdir",
            "readdirSync",
            "readlinkSync",
            "realpathSync",
            "rename",
            "renameSync",
            "rm",
            "rmSync",
            "rmdirSync",
            "stat",
            "statSync",
            "symlinkSync",
            "unlink",
            "unlinkSync",
            "watch",
            "writeFile",
            "writeFileSync",
        ],
    ),
    (
        "fs/promises",
        &[
            "access",
            "appendFile",
            "copyFile",
            "lstat",
            "mkdir",
            "open",
            "readFile",
            "readdir",
            "rename",
            "rm",
            "stat",
            "unlink",
            "writeFile",
        ],
    ),
    (
        "child_process",
        &[
            "exec",
            "execFile",
            "execFileSync",
            "execSync",
            "fork",
            "spawn",
            "spawnSync",
        ],
    ),
    (
        "os",
        &["arch", "cpus", "homedir", "hostname", "platform", "tmpdir", "userInfo"],
    ),
    ("net", &["connect", "createConnection", "createServer"]),
    ("http", &["createServer", "get", "request"]),
    ("https", &["createServer", "get", "request"]),
];

/// The resolver and loader of a worker's runtime.
pub struct Inert;

fn known(name: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    let bare = name.strip_prefix("node:").unwrap_or(name);
    NAMES.iter().find(|(known, _)| *known == bare)
}

impl Resolver for Inert {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        match known(name) {
            Some((bare, _)) => Ok(format!("node:{bare}")),
            None => Err(Error::new_resolving_message(
                base,
                name,
                "a plugin is one file without imports: put the code into that file (bundle it)",
            )),
        }
    }
}

impl Loader for Inert {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let (bare, names) = known(name).ok_or_else(|| Error::new_loading(name))?;
        Module::declare(ctx.clone(), name, inert(bare, names))
    }
}

fn inert(bare: &str, names: &[&str]) -> String {
    use std::fmt::Write;
    let mut text = format!(
        "const no = (what) => () => {{ throw new Error(`node:{bare} does nothing in a plugin: ${{what}} is not \
         available, use the host argument instead`); }};\n"
    );
    for name in names {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "export const {name} = no(\"{name}\");");
    }
    let _ = writeln!(text, "export default Object.freeze({{ {} }});", names.join(", "));
    text
}
