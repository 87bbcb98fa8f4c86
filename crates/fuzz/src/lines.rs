//! Lines of the control connection and of enrolment, and what people paste or type: read, or refused.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use wayside_client::control::{Abort, Greeting, ListRequest, Listing, Proven, Welcome};
use wayside_client::credentials::Credentials;
use wayside_client::enrolment::{Answer, Enrolled, Question, Token, hex, unhex};
use wayside_client::{Endpoint, Task};
use wayside_sim::Marks;

pub fn run(input: &[u8]) {
    reads_back::<Greeting>(input);
    reads_back::<Welcome>(input);
    reads_back::<ListRequest>(input);
    reads_back::<Abort>(input);
    reads_back::<Proven>(input);
    reads_back::<Listing>(input);
    reads_back::<Question>(input);
    reads_back::<Answer>(input);
    let _ = serde_json::from_slice::<Credentials>(input);
    if let Ok(enrolled) = serde_json::from_slice::<Enrolled>(input) {
        let _ = enrolled.enrolment();
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse(), Ok(token));
    }
    if let Some(bytes) = unhex(text) {
        assert_eq!(hex(&bytes), text.to_ascii_lowercase());
    }
    if let Ok(endpoints) = Endpoint::parse_list(text) {
        assert!(!endpoints.is_empty());
    }
    if let Ok(task) = text.parse::<Task>() {
        assert_eq!(task.to_string().parse(), Ok(task));
    }
    // What `wayside sim` is told to leave out. Each of a million is an entry, which shows nothing and takes long.
    let is_long = text.contains('-') && text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 3);
    if !is_long && let Ok(marks) = Marks::parse(text) {
        assert_eq!(Marks::parse(&marks.to_string()), Ok(marks));
    }
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(input: &[u8]) {
    if let Ok(line) = serde_json::from_slice::<T>(input) {
        let text = serde_json::to_vec(&line).expect("strings and numbers");
        assert_eq!(serde_json::from_slice::<T>(&text).expect("its own line"), line);
    }
}
