//! `trailtrap`: see [`trailtrap::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    trailtrap::cli::main()
}
