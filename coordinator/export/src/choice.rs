//! What whoever exports can choose from.

/// A choice among a few things, each of which has a name.
pub trait Choice: Copy + Send + Sync + 'static {
    /// All of them, in the order in which they are offered.
    const ALL: &'static [Self];

    /// The name on the command line, and the stem of files; it never changes its meaning.
    fn name(self) -> &'static str;

    /// What it is, in a few words; nothing if the name says it.
    fn about(self) -> &'static str;
}

/// Defines an enumeration whose variants have names and descriptions.
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($variant:ident = $text:literal: $about:literal,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`: ", $about)] $variant,)+
        }

        impl $crate::choice::Choice for $name {
            const ALL: &'static [Self] = &[$($name::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $($name::$variant => $about,)+
                }
            }
        }
    };
}
pub(crate) use choices;
