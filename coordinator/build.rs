//! Lets the program know what it was built from: the commit, if there is a git repository, and the
//! compiler.
use std::{
    env,
    process::{Command, Stdio},
};

/// What a command prints, if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    // The repository of these sources, not one that they happen to lie in.
    let ours = output("git", &["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = output("git", &["rev-parse", "HEAD"]).filter(|_| ours).map(|commit| {
        // Tracked files only: a file that is not tracked is no part of the program.
        let changed = output("git", &["status", "--porcelain", "--untracked-files=no"])
            .is_none_or(|list| !list.is_empty());
        commit + if changed { " with changes" } else { "" }
    });
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    println!("cargo:rustc-env=TRAILTRAP_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!(
        "cargo:rustc-env=TRAILTRAP_COMPILER={}",
        output(&rustc, &["--version"]).as_deref().unwrap_or("unknown")
    );
    // Whatever is compiled in, and the log of what HEAD was, which grows with every commit and
    // checkout.
    for path in [
        "build.rs",
        "src",
        "census/src",
        "export/src",
        "../shared/src",
        "../worker/src",
        "../Cargo.toml",
        "../Cargo.lock",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
}
