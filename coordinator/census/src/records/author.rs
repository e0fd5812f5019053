//! Who solved a unit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A worker as records and alarms name it. Two are the same worker if their names are, whatever
/// kernel they solve with.
///
/// It is stored as one text, which this type alone makes and reads: the name, `", "`, and the
/// kernel. A kernel has no comma, so the last `", "` is where the two meet, whatever the name
/// holds. A text without it is a name of which no kernel is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Author {
    name: String,
    kernel: Option<String>,
}

const SEPARATOR: &str = ", ";
/// Characters of a name or kernel; what comes after is left out.
const LONGEST: usize = 100;

impl Author {
    /// A worker that calls itself so. Control characters are left out, and commas in the kernel.
    pub fn new(name: &str, kernel: &str) -> Self {
        let printable = |text: &str, is_barred: fn(&char) -> bool| -> String {
            text.chars().filter(|c| !c.is_control() && !is_barred(c)).take(LONGEST).collect()
        };
        Author { name: printable(name, |_| false), kernel: Some(printable(kernel, |&c| c == ',')) }
    }

    /// The coordinator, where it solves units itself. No worker is called so.
    pub fn coordinator() -> Self {
        Author { name: "the coordinator".to_owned(), kernel: None }
    }

    /// The same name with a number, but for the first.
    pub fn numbered(&self, number: usize) -> Self {
        match number {
            1 => self.clone(),
            _ => {
                let suffix = format!(" ({number})");
                let kept = LONGEST - suffix.chars().count().min(LONGEST);
                let name: String = self.name.chars().take(kept).collect();
                Author { name: name + &suffix, kernel: self.kernel.clone() }
            }
        }
    }

    /// Whether this is the same worker.
    pub fn is(&self, other: &Author) -> bool {
        self.name == other.name
    }

    /// What the worker calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instruction set of its kernel; nothing if that is not known.
    pub fn kernel(&self) -> &str {
        self.kernel.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "{}{SEPARATOR}{kernel}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.to_string()
    }
}

impl From<String> for Author {
    fn from(text: String) -> Self {
        match text.rsplit_once(SEPARATOR) {
            Some((name, kernel)) => {
                Author { name: name.to_owned(), kernel: Some(kernel.to_owned()) }
            }
            None => Author { name: text, kernel: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trailtrap_shared::protocol::codec;

    use super::*;

    proptest! {
        /// Nobody can call himself so that records name somebody else.
        #[test]
        fn what_is_read_is_who_was_registered(name in "[a, \n]{0,8}", kernel in "[k, \n]{0,8}") {
            let author = Author::new(&name, &kernel);
            prop_assert_eq!(Author::from(author.to_string()), author);
        }

        /// A record of an earlier version is written as it was read.
        #[test]
        fn any_stored_text_stays_what_it_is(text in "[a, ]{0,12}|.*") {
            prop_assert_eq!(Author::from(text.clone()).to_string(), text.clone());
            let bytes = codec::encode(&text);
            let author: Author = codec::decode(&bytes).unwrap();
            prop_assert_eq!(codec::encode(&author), bytes);
        }
    }

    #[test]
    fn commas_do_not_move_the_border() {
        let author = Author::new("rack 4, node 7/12", "avx2, fast");
        assert_eq!((author.name(), author.kernel()), ("rack 4, node 7/12", "avx2 fast"));
        assert_eq!(author.to_string(), "rack 4, node 7/12, avx2 fast");
        let nameless = Author::from("somebody".to_owned());
        assert_eq!((nameless.name(), nameless.kernel()), ("somebody", ""));
        assert_ne!(nameless, Author::new("somebody", ""));
        assert_eq!(Author::new("two\nlines", "avx2").to_string(), "twolines, avx2");
        assert_eq!(Author::new(&"x".repeat(3000), "").name().len(), LONGEST);
    }
}
