//! A page without a window, for the bridge's tests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::bridge::{Page, Question};

type Done = Box<dyn FnOnce() + Send>;

/// Keeps what would be run in a page. A holding page never finishes a script until told to.
pub struct TestPage {
    holding: bool,
    scripts: Mutex<Vec<String>>,
    held: Mutex<Vec<Done>>,
    pub asked: Mutex<Vec<(Question, oneshot::Sender<bool>)>>,
    pub links: Mutex<Vec<String>>,
    pub stopped: Mutex<Vec<&'static str>>,
}

impl TestPage {
    pub fn new() -> Arc<TestPage> {
        Self::make(false)
    }

    pub fn holding() -> Arc<TestPage> {
        Self::make(true)
    }

    fn make(holding: bool) -> Arc<TestPage> {
        Arc::new(TestPage {
            holding,
            scripts: Mutex::default(),
            held: Mutex::default(),
            asked: Mutex::default(),
            links: Mutex::default(),
            stopped: Mutex::default(),
        })
    }

    pub fn scripts(&self) -> Vec<String> {
        self.scripts.lock().unwrap().clone()
    }

    pub fn run_held(&self) {
        for done in self.held.lock().unwrap().drain(..) {
            done();
        }
    }

    /// Every message delivered so far, in order.
    pub fn messages(&self) -> Vec<serde_json::Value> {
        let scripts = self.scripts();
        let arguments = scripts
            .iter()
            .map(|script| &script["__chrysalisIn(".len()..script.len() - 1]);
        arguments
            .flat_map(|text| {
                let batch: (String, u64, Vec<serde_json::Value>) = serde_json::from_str(text).unwrap();
                batch.2
            })
            .collect()
    }

    /// Waits for something to become true; fails the test after thirty seconds.
    pub async fn until(&self, mut what: impl FnMut(&TestPage) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !what(self) {
            assert!(Instant::now() < deadline, "did not happen within thirty seconds");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Page for TestPage {
    fn evaluate(&self, script: String, done: Done) {
        self.scripts.lock().unwrap().push(script);
        if self.holding {
            self.held.lock().unwrap().push(done);
        } else {
            done();
        }
    }

    fn ask(&self, question: Question) -> oneshot::Receiver<bool> {
        let (answer, receiver) = oneshot::channel();
        self.asked.lock().unwrap().push((question, answer));
        receiver
    }

    fn open_link(&self, url: String) {
        self.links.lock().unwrap().push(url);
    }

    fn stop(&self, why: &'static str) {
        self.stopped.lock().unwrap().push(why);
    }
}
