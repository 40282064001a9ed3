use std::fmt;

/// Why a username was refused; the text is for the person who chose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsernameError {
    #[error("this name is not valid: use 1 to 32 letters (a-z), digits, '-' or '_', starting with a letter or digit")]
    Form,
    #[error("\"{0}\" is a reserved device name on Windows: choose another name")]
    Device(String),
}

/// A person's name at the door: `[A-Za-z0-9][A-Za-z0-9_-]{0,31}`, not an MS-DOS device (contract section 1). Kept as
/// it was written, looked up by [`Username::key`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Username(String);

impl Username {
    pub fn parse(text: &str) -> Result<Self, UsernameError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let all = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !first || !all || text.len() > 32 {
            return Err(UsernameError::Form);
        }
        let lower = text.to_ascii_lowercase();
        let numbered = lower.strip_prefix("com").or_else(|| lower.strip_prefix("lpt"));
        let device = matches!(lower.as_str(), "con" | "prn" | "aux" | "nul")
            || numbered.is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit());
        if device {
            return Err(UsernameError::Device(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// As the person wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What must be unique: two names that differ in case alone are the same name.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_contract() {
        for good in ["a", "Zoe", "0", "a_b-c", "COM10", "console", "nul-l", &"a".repeat(32)] {
            assert_eq!(Username::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            " ",
            "-a",
            "_a",
            "a b",
            "a.b",
            "..",
            "a/b",
            "a\0",
            "a\n",
            "zoë",
            "Ｚoe",
            "🦋",
            &"a".repeat(33),
        ] {
            assert_eq!(Username::parse(bad), Err(UsernameError::Form), "{bad:?}");
        }
        for device in ["con", "CON", "Prn", "aux", "NUL", "com0", "COM1", "lpt9"] {
            assert!(
                matches!(Username::parse(device), Err(UsernameError::Device(_))),
                "{device}"
            );
        }
    }

    #[test]
    fn case_makes_no_difference() {
        assert_eq!(
            Username::parse("Zoe").unwrap().key(),
            Username::parse("zOE").unwrap().key()
        );
    }
}
