//! Which graphs are drawn, and how often each number of edges comes.

use std::{fmt, str::FromStr};

use num_bigint::BigUint;
use serde::{Deserialize, Serialize};

use super::draw::Kind;
use crate::graph::{degree::binomial, pairs, polya};

/// A distribution on the graphs of an order. In JSON it is as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Model {
    /// Labelled graphs with so many edges, all alike.
    Gnm(usize),
    /// Each edge is there with this probability, independently: G(n, p).
    Gnp(Probability),
    /// Labelled graphs, all alike: G(n, 1/2).
    Labelled,
    /// Isomorphism classes, all alike.
    Unlabelled,
}

/// A fraction between 0 and 1, neither of them, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probability {
    numerator: u64,
    denominator: u64,
}

/// What is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No model has this name.
    #[error("no model '{0}': choose gnm:M, gnp, gnp:P, labelled or unlabelled")]
    Unknown(String),
    /// Not a number of edges.
    #[error("'{0}' is no number of edges")]
    Size(String),
    /// Not a probability.
    #[error("'{0}' is no probability: write a number between 0 and 1, such as 0.3 or 1/3")]
    Probability(String),
}

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let half = Probability { numerator: 1, denominator: 2 };
        match text.split_once(':') {
            Some(("gnm", size)) => {
                let number = number(size).and_then(|number| usize::try_from(number).ok());
                number.map(Model::Gnm).ok_or_else(|| ModelError::Size(size.to_owned()))
            }
            Some(("gnp", probability)) => Ok(Model::Gnp(probability.parse()?)),
            None if text == "gnp" => Ok(Model::Gnp(half)),
            None if text == "labelled" => Ok(Model::Labelled),
            None if text == "unlabelled" => Ok(Model::Unlabelled),
            _ => Err(ModelError::Unknown(text.to_owned())),
        }
    }
}

impl FromStr for Probability {
    type Err = ModelError;

    /// A decimal fraction of at most 18 digits, or a quotient.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parts = match (text.split_once('/'), text.split_once('.')) {
            (Some((numerator, denominator)), None) => number(numerator).zip(number(denominator)),
            (None, Some(("" | "0", digits))) if (1..=18).contains(&digits.len()) => {
                number(digits).map(|numerator| (numerator, 10u64.pow(digits.len() as u32)))
            }
            _ => None,
        };
        match parts {
            Some((numerator, denominator)) if 0 < numerator && numerator < denominator => {
                let (mut divisor, mut rest) = (denominator, numerator);
                while rest > 0 {
                    (divisor, rest) = (rest, divisor % rest);
                }
                Ok(Probability {
                    numerator: numerator / divisor,
                    denominator: denominator / divisor,
                })
            }
            _ => Err(ModelError::Probability(text.to_owned())),
        }
    }
}

/// A number that is written in decimal digits alone.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl TryFrom<String> for Model {
    type Error = ModelError;

    fn try_from(text: String) -> Result<Self, ModelError> {
        text.parse()
    }
}

impl From<Model> for String {
    fn from(model: Model) -> Self {
        model.to_string()
    }
}

/// As it is read.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Model::Gnm(size) => write!(f, "gnm:{size}"),
            Model::Gnp(Probability { numerator, denominator }) => {
                write!(f, "gnp:{numerator}/{denominator}")
            }
            Model::Labelled => write!(f, "labelled"),
            Model::Unlabelled => write!(f, "unlabelled"),
        }
    }
}

impl Model {
    /// What is drawn within a number of edges.
    pub fn kind(self) -> Kind {
        match self {
            Model::Gnm(_) | Model::Gnp(_) | Model::Labelled => Kind::Labelled,
            Model::Unlabelled => Kind::Unlabelled,
        }
    }

    /// The share of the graphs of order `n` ≤ 13 that have m edges, for m = 0, …, C(n, 2): the
    /// quotient of two exact numbers, rounded.
    pub fn shares(self, n: usize) -> Vec<f64> {
        let most = pairs(n);
        let power = |base: u64, exponent: usize| BigUint::from(base).pow(exponent as u32);
        let binomials = |yes: u64, no: u64| {
            let count = |m| binomial(most, m) * power(yes, m) * power(no, most - m);
            (0..=most).map(count).collect()
        };
        let counts: Vec<BigUint> = match self {
            Model::Gnm(size) => (0..=most).map(|m| u8::from(m == size).into()).collect(),
            Model::Gnp(p) => binomials(p.numerator, p.denominator - p.numerator),
            Model::Labelled => binomials(1, 1),
            Model::Unlabelled => polya::unlabelled(n).pop().map_or_else(Vec::new, |last| last.all),
        };
        let all: BigUint = counts.iter().sum();
        counts.iter().map(|count| quotient(count, &all)).collect()
    }
}

/// part / whole ≤ 1, to 63 bits.
fn quotient(part: &BigUint, whole: &BigUint) -> f64 {
    if part.bits() == 0 {
        return 0.0;
    }
    let shift = 63 + whole.bits() - part.bits();
    let bits = (part << shift) / whole;
    let bits = u64::try_from(&bits).unwrap_or(u64::MAX);
    bits as f64 * 0.5f64.powi(shift as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_and_written() {
        for text in ["gnm:31", "gnp:1/3", "labelled", "unlabelled"] {
            assert_eq!(text.parse::<Model>().unwrap().to_string(), text);
        }
        for text in ["gnp", "gnp:0.5", "gnp:.50", "gnp:1/2", "gnp:21/42"] {
            assert_eq!(text.parse::<Model>().unwrap().to_string(), "gnp:1/2");
        }
        assert_eq!("gnp:0.25".parse::<Model>().unwrap().to_string(), "gnp:1/4");
        let none = ["gnm", "gnm:x", "gnp:0", "gnp:1", "gnp:3/2", "gnp:0.", "gnp:1e-1", "G", ""];
        let signed = ["gnm:+5", "gnp:.+5", "gnp:+1/2", "gnp:1/+2", "gnp:-1/2"];
        for text in none.iter().chain(&signed) {
            assert!(text.parse::<Model>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_those_of_the_definitions() {
        let shares = |text: &str| text.parse::<Model>().unwrap().shares(4);
        let close = |found: Vec<f64>, expected: [f64; 7]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?}");
        };
        close(shares("gnm:2"), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        close(shares("labelled"), [1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0].map(|c| c / 64.0));
        close(shares("gnp:1/3"), [64.0, 192.0, 240.0, 160.0, 60.0, 12.0, 1.0].map(|c| c / 729.0));
        close(shares("unlabelled"), [1.0, 1.0, 2.0, 3.0, 2.0, 1.0, 1.0].map(|c| c / 11.0));
    }
}
