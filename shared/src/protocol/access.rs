//! Access files: where a coordinator is, how to be sure that it is the one, and the token that it
//! asks for.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};

/// The name that generated certificates are made out to. Access files repeat it. It names no host:
/// clients trust the certificate itself.
pub const CERTIFICATE_NAME: &str = "trailtrap-coordinator";

/// 256 random bits that admit whoever knows them. No message shows them: `Debug` leaves them out.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessToken(#[serde(with = "hex::serde")] [u8; 32]);

impl AccessToken {
    /// A token of these bytes, which should be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        AccessToken(bytes)
    }

    /// The token in the value of an `authorization` header: `Bearer` and 64 hexadecimal digits.
    pub fn from_header(value: &[u8]) -> Option<Self> {
        let digits = value.strip_prefix(b"Bearer ")?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(AccessToken(bytes))
    }

    /// The value of an `authorization` header.
    pub fn header(&self) -> MetadataValue<Ascii> {
        let mut value = MetadataValue::try_from(format!("Bearer {}", hex::encode(self.0)))
            .expect("digits are ASCII");
        value.set_sensitive(true);
        value
    }
}

/// Compares in a time that does not depend on where the tokens differ, so that timing reveals
/// nothing of them.
impl PartialEq for AccessToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// What an access file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// HOST:PORT.
    pub address: String,
    /// How to be admitted; nothing for a coordinator that listens on loopback only and admits
    /// everybody there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,
}

/// How to be admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// The only certificate that is trusted to sign the coordinator's, or that certificate itself;
    /// PEM.
    pub certificate: String,
    /// The name that the coordinator's certificate has to be made out to; the host of the address
    /// if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the coordinator asks for a certificate too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mutual: bool,
    /// What the worker shows with each call.
    pub token: AccessToken,
}

/// The text is not an access file. The error gives the place of the first mistake and never quotes
/// the text, which may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an access file (line {line}, column {column})")]
pub struct Malformed {
    /// The line of the first error, counted from 1.
    pub line: usize,
    /// The column of the first error, counted from 1.
    pub column: usize,
}

impl Access {
    /// Reads the content of an access file.
    ///
    /// # Errors
    /// [`Malformed`] if it is not JSON of this structure; unknown members are refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        // The messages of the parser may quote the file, and with it a token.
        serde_json::from_slice(bytes)
            .map_err(|error| Malformed { line: error.line(), column: error.column() })
    }

    /// The content of an access file, as JSON.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("an access file is plain data") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let pass = Pass {
            certificate: "PEM".to_owned(),
            name: Some("x".to_owned()),
            mutual: false,
            token: AccessToken::new([0xa7; 32]),
        };
        Access { address: "host:1".to_owned(), pass: Some(pass) }
    }

    #[test]
    fn nothing_shows_a_token() {
        let token = "a7".repeat(32);
        assert!(!format!("{:?}", access()).contains(&token));
        for text in [
            "",
            "{",
            "[]",
            "{\"address\":\"h:1\",\"certificate\":\"c\",\"token\":\"TOKEN00\"}",
            "\"TOKEN\"",
            "{\"address\":{\"TOKEN\":1}}",
            "{\"address\":\"h:1\",\"pass\":{\"token\":\"TOKEN\"}}",
            "{\"address\":\"h:1\",\"pass\":\"TOKEN\"}",
        ] {
            let access = Access::parse(text.replace("TOKEN", &token).as_bytes());
            // A pass that is not whole must not become none at all.
            let error = access.unwrap_err();
            assert!(!format!("{error} {error:?}").contains(&token), "{error:?}");
        }
    }

    #[test]
    fn headers() {
        let token = AccessToken::new(std::array::from_fn(|i| i as u8));
        assert_eq!(AccessToken::from_header(token.header().as_bytes()), Some(token.clone()));
        assert_ne!(
            AccessToken::from_header(access().pass.unwrap().token.header().as_bytes()),
            Some(token)
        );
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 00",
            "bearer x",
            &"0".repeat(64),
            &format!("Bearer {}", "g".repeat(64)),
        ] {
            assert_eq!(AccessToken::from_header(bad.as_bytes()), None, "{bad}");
        }
    }
}
