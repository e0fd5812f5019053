//! The layers of the sources, as far as the borders of crates do not keep them: which modules may
//! know of which. A module that begins to use a layer above it fails here, under its name.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What the modules of a directory must not use.
struct Rule {
    directory: &'static str,
    forbidden: &'static [&'static str],
}

const RULES: [Rule; 15] = [
    // Nothing is opened here.
    Rule {
        directory: "shared/src",
        forbidden: &["std::fs", "std::net", "std::thread", "tokio", "trailtrap_worker"],
    },
    Rule {
        directory: "worker/src/kernel",
        forbidden: &["crate::cache", "crate::engine", "crate::link", "crate::supply", "tokio"],
    },
    Rule { directory: "worker/src/supply", forbidden: &["crate::engine", "crate::link"] },
    Rule { directory: "worker/src/link", forbidden: &["crate::engine"] },
    // How a worker solves, counts, and has blocks elsewhere is known, and not how it runs.
    Rule {
        directory: "coordinator/census/src",
        forbidden: &[
            "trailtrap_worker::access",
            "trailtrap_worker::cache",
            "trailtrap_worker::engine",
            "trailtrap_worker::link",
        ],
    },
    Rule {
        directory: "coordinator/census/src/records",
        forbidden: &[
            "crate::core",
            "crate::store",
            "crate::trust",
            "crate::driver",
            "crate::read",
            "std::time::Instant",
            "std::time::SystemTime",
        ],
    },
    // What decides has no lock, thread, store, or clock of its own.
    Rule {
        directory: "coordinator/census/src/core",
        forbidden: &[
            "crate::store",
            "crate::trust",
            "crate::driver",
            "crate::read",
            "parking_lot",
            "rocksdb",
            "std::fs",
            "std::sync::Condvar",
            "std::sync::Mutex",
            "std::sync::RwLock",
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
            "tokio",
            "getrandom",
            "tracing",
            "trailtrap_worker",
        ],
    },
    Rule {
        directory: "coordinator/census/src/store",
        forbidden: &["crate::core", "crate::trust", "crate::driver", "crate::read", "tokio"],
    },
    Rule {
        directory: "coordinator/census/src/trust",
        forbidden: &["crate::store", "crate::driver", "crate::read", "tokio"],
    },
    Rule {
        directory: "coordinator/census/src/read",
        forbidden: &["crate::core", "crate::trust", "crate::driver", "tokio"],
    },
    Rule {
        directory: "coordinator/export/src",
        forbidden: &[
            "trailtrap_census::core",
            "trailtrap_census::driver",
            "trailtrap_census::records",
            "trailtrap_census::store",
            "trailtrap_census::trust",
            "trailtrap_census::watch",
            // Exports replace files by `process::replace`, and survive the panics of others by
            // `process::signals`; of workers they know nothing else.
            "trailtrap_worker::access",
            "trailtrap_worker::cache",
            "trailtrap_worker::counting",
            "trailtrap_worker::engine",
            "trailtrap_worker::kernel",
            "trailtrap_worker::link",
            "trailtrap_worker::memory",
            "trailtrap_worker::supply",
        ],
    },
    // Flags are the command line's.
    Rule {
        directory: "coordinator/src/serve",
        forbidden: &["crate::cli", "crate::verify", "clap"],
    },
    Rule {
        directory: "coordinator/src/rehearsal",
        forbidden: &["crate::cli", "crate::sample", "crate::verify", "clap"],
    },
    Rule {
        directory: "coordinator/src/sample",
        forbidden: &["crate::cli", "crate::serve", "crate::verify", "clap"],
    },
    Rule {
        directory: "coordinator/src/verify",
        forbidden: &["crate::cli", "crate::serve", "clap"],
    },
];

/// What the modules of a directory may use of a layer all the same: of the core, up to which order
/// nauty enumerates the graphs, and these graphs.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("coordinator/census/src/store", "crate::core::parents::ENUMERATED_ORDER"),
    ("coordinator/census/src/read", "crate::core::parents"),
];

#[test]
fn no_module_uses_what_is_built_upon_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    for Rule { directory, forbidden } in &RULES {
        let files = sources(&root.join(directory));
        assert!(!files.is_empty(), "{directory} holds sources");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests may stand on whatever they like.
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for path in paths(&module_of(&file), text) {
                let is_within = |layer: &str| {
                    path.strip_prefix(layer)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                if EXCEPTIONS.iter().any(|&(of, layer)| of == *directory && is_within(layer)) {
                    continue;
                }
                if let Some(layer) = forbidden.iter().find(|&&layer| is_within(layer)) {
                    wrong.push(format!("{} uses {layer}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files below a directory, but for those that hold nothing but tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            files.push(path);
        }
    }
    files
}

/// The names of the modules that lead to a file, from its crate on.
fn module_of(file: &Path) -> Vec<String> {
    let names: Vec<String> =
        file.with_extension("").iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    let root = names.iter().rposition(|name| name == "src").unwrap();
    let mut module = names[root + 1..].to_vec();
    if module.last().is_some_and(|name| name == "mod" || name == "lib") {
        module.pop();
    }
    module
}

/// All that a source names by a path, imports taken apart and seen from the root of the crate.
fn paths(module: &[String], text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find("use ") {
        let begins = rest[..start].ends_with(['\n', ' ']) || start == 0;
        rest = &rest[start + 4..];
        if let Some(end) = rest.find(';').filter(|_| begins) {
            expand("", &rest[..end], &mut found);
        }
    }
    let named = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    found.extend(named.filter(|word| word.contains("::")).map(str::to_owned));
    found.iter().map(|path| from_root(module, path)).collect()
}

/// The paths of a tree of imports.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((path, inner)) = tree.split_once('{') else {
        // Under another name it is the same.
        let path = tree.split(" as ").next().unwrap_or(tree);
        return found.push(format!("{prefix}{path}"));
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start) = (0, 0);
    for (at, character) in inner.char_indices().chain([(inner.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&format!("{prefix}{}", path.trim()), &inner[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn from_root(module: &[String], path: &str) -> String {
    let mut above = module;
    let mut rest = path;
    while let Some(further) = rest.strip_prefix("super::") {
        above = above.split_last().map_or(above, |(_, above)| above);
        rest = further;
    }
    if rest.len() == path.len() {
        return path.to_owned();
    }
    ["crate"]
        .into_iter()
        .chain(above.iter().map(String::as_str))
        .chain([rest])
        .collect::<Vec<_>>()
        .join("::")
}

#[test]
fn imports_are_taken_apart() {
    let module = ["store".to_owned(), "salvage".to_owned()];
    let text = "use std::{\n    fs::{self, File},\n    io,\n};\nuse super::{Store, plan};\n\
                // crate::driver in a comment\nfn f() -> crate::records::Alarm {}\n";
    let found = paths(&module, text);
    for path in ["std::fs::self", "std::fs::File", "std::io", "crate::store::Store"] {
        assert!(found.iter().any(|found| found == path), "{path} in {found:?}");
    }
    assert!(found.iter().any(|found| found == "crate::records::Alarm"), "{found:?}");
    assert!(!found.iter().any(|found| found.contains("driver")), "{found:?}");
}
