//! JSON that somebody else wrote: what it would take in memory is known before it is parsed.

use serde_json::Value;

use crate::frame;

/// How much JSON one call may have in the engine's memory at the same moment.
///
/// A parsed value takes about 32 bytes where the text `0,` takes two, so bytes alone are no limit: values are counted
/// before anything is parsed.
#[derive(Debug, Clone)]
pub struct Budget {
    bytes: usize,
    values: usize,
    most: (usize, usize),
}

/// What one text took from the budget, to be given back.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    bytes: usize,
    values: usize,
}

impl Budget {
    /// For a call whose heap may hold `memory` bytes: one frame of text ([`frame::most`]) and, for an ordinary call, a
    /// million values (about 100 MB parsed, at worst; an object counts as several); two million for a larger one.
    pub fn new(memory: u64) -> Budget {
        let bytes = frame::most(memory);
        let values = if bytes > frame::MAX_FRAME { 2_000_000 } else { 1_000_000 };
        Budget {
            bytes,
            values,
            most: (bytes, values),
        }
    }

    /// Parses `text`, taking its size from the budget. The error says what was wrong; nothing is taken then.
    pub fn parse(&mut self, text: &str) -> Result<(Value, Cost), String> {
        let cost = self.take(text)?;
        match read(text) {
            Ok(value) => Ok((value, cost)),
            Err(why) => {
                self.release(cost);
                Err(why)
            }
        }
    }

    /// Takes the size of `text`, for one that is parsed afterwards. The error says that there is no room.
    pub fn take(&mut self, text: &str) -> Result<Cost, String> {
        let cost = Cost {
            bytes: text.len(),
            values: values(text.as_bytes()),
        };
        let (Some(bytes), Some(values)) = (self.bytes.checked_sub(cost.bytes), self.values.checked_sub(cost.values))
        else {
            let (bytes, values) = self.most;
            return Err(format!(
                "more data than the {} MiB or {} million values that may be under way at once",
                bytes >> 20,
                values / 1_000_000
            ));
        };
        (self.bytes, self.values) = (bytes, values);
        Ok(cost)
    }

    /// Gives back what a text took, once its value is gone.
    pub fn release(&mut self, cost: Cost) {
        self.bytes += cost.bytes;
        self.values += cost.values;
    }
}

/// Parses a text whose size was looked at before.
pub fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

/// Whether a JSON text is within what one ordinary call may have in memory. Costs one look at each byte and no memory.
pub fn fits(text: &[u8]) -> bool {
    let most = Budget::new(0);
    text.len() <= most.bytes && values(text) <= most.values
}

/// What an object takes besides its entries, in values: with its first entry it reserves room for three (104 bytes each)
/// and a table of 52 bytes, of which two values are counted by the entry itself. With this, a text of nothing but
/// `{"":0}` takes no more than one of nothing but numbers.
const OBJECT: usize = 6;

/// Upper bound of the values in a JSON text: everything that can begin one, outside of strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for &byte in text {
        if quoted {
            (escaped, quoted) = (byte == b'\\' && !escaped, escaped || byte != b'"');
        } else {
            match byte {
                b'"' => quoted = true,
                b',' | b'[' | b':' => count += 1,
                b'{' => count += OBJECT,
                _ => {}
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_large_as_the_limits_reckon() {
        assert_eq!(size_of::<Value>(), 72);
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_parsed() {
        let bomb = format!("[{}0]", "0,".repeat(1_000_000));
        assert!(Budget::new(0).parse(&bomb).unwrap_err().contains("1 million values"));
        let objects = format!("[{}0]", "{\"\":0},".repeat(200_000));
        assert!(Budget::new(0).parse(&objects).unwrap_err().contains("1 million values"));
        assert!(!fits(bomb.as_bytes()) && !fits(objects.as_bytes()));
        assert!(fits(b"[{\"a\": [1, 2, 3]}]"));
        let deep = "[".repeat(100_000);
        assert!(Budget::new(0).parse(&deep).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn commas_in_strings_are_free_and_costs_come_back() {
        let text = format!("\"{}\"", "\\\",[".repeat(1_000_000));
        let mut budget = Budget::new(0);
        let (_, cost) = budget.parse(&text).unwrap();
        assert_eq!(cost.values, 1);
        let before = budget.bytes;
        budget.release(cost);
        assert_eq!(budget.bytes, before + text.len());
    }
}
