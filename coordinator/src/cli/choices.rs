//! Arguments that are a choice among a few things.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use trailtrap_export::choice::Choice;

/// Reads the name of one of these things.
pub fn choices<T: Choice>() -> impl TypedValueParser<Value = T> {
    let offered = T::ALL.iter().map(|choice| {
        let offered = PossibleValue::new(choice.name());
        if choice.about().is_empty() { offered } else { offered.help(choice.about()) }
    });
    PossibleValuesParser::new(offered).try_map(|name| {
        T::ALL.iter().copied().find(|choice| choice.name() == name).ok_or("no such choice")
    })
}
