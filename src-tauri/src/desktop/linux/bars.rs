//! Questions and messages above a page, drawn by us: the page can neither see nor click them.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use gtk::glib;
use gtk::prelude::*;
use gtk::{InfoBar, Label, MessageType, Orientation, ResponseType};
use tokio::sync::oneshot;

use super::super::bridge::Question;

/// How long the buttons of a question sleep: a page that makes a question appear under a hand that is about to click
/// gains nothing.
const SLEEP: Duration = Duration::from_millis(700);

/// How often a standing question is checked for whether anyone still waits for the answer.
const STILL_WANTED: Duration = Duration::from_millis(100);

/// Where the answer to a question goes, until it is given.
type Answer = RefCell<Option<oneshot::Sender<bool>>>;

/// The place above one page.
pub struct Bars {
    area: gtk::Box,
    question: Rc<RefCell<Option<InfoBar>>>,
    /// Of the question that stands. It is the bar that holds it, so it goes with the bar.
    answer: RefCell<Weak<Answer>>,
    trouble: Rc<RefCell<Option<InfoBar>>>,
}

impl Bars {
    /// Makes room at the top of a window's content.
    pub fn above(content: &gtk::Box) -> Bars {
        let area = gtk::Box::new(Orientation::Vertical, 0);
        content.pack_start(&area, false, false, 0);
        content.reorder_child(&area, 0);
        area.show();
        Bars {
            area,
            question: Rc::default(),
            answer: RefCell::default(),
            trouble: Rc::default(),
        }
    }

    /// Asks. While another question stands, the sender is dropped, which means no. A question whose answer nobody waits
    /// for any more, since the page was loaded anew, goes away by itself.
    pub fn ask(&self, question: &Question, answer: oneshot::Sender<bool>) {
        if !wanted(&answer) {
            return;
        }
        if self.question.borrow().is_some() {
            let stands = self.answer.borrow().upgrade();
            if stands.is_some_and(|stands| stands.borrow().as_ref().is_some_and(wanted)) {
                return;
            }
            take_away(&self.area, &self.question);
        }
        let answer: Rc<Answer> = Rc::new(RefCell::new(Some(answer)));
        *self.answer.borrow_mut() = Rc::downgrade(&answer);
        let (waiting, slot, area) = (Rc::downgrade(&answer), self.question.clone(), self.area.clone());
        let buttons = [(question.yes, true), (question.no, false)];
        let give = move |yes| {
            if let Some(answer) = answer.take() {
                let _ = answer.send(yes);
            }
        };
        self.show(
            &self.question,
            MessageType::Question,
            &question.text,
            &buttons,
            true,
            give,
        );
        glib::timeout_add_local(STILL_WANTED, move || {
            let Some(answer) = waiting.upgrade() else {
                return glib::ControlFlow::Break;
            };
            if answer.borrow().as_ref().is_some_and(wanted) {
                return glib::ControlFlow::Continue;
            }
            take_away(&area, &slot);
            glib::ControlFlow::Break
        });
    }

    /// Shows a message instead of whatever stands there; an open question counts as declined.
    pub fn trouble(&self, text: &str, buttons: &[(&str, bool)], answer: impl FnOnce(bool) + 'static) {
        self.clear();
        self.show(&self.trouble, MessageType::Warning, text, buttons, false, answer);
    }

    /// Takes everything away.
    pub fn clear(&self) {
        for slot in [&self.question, &self.trouble] {
            take_away(&self.area, slot);
        }
    }

    fn show(
        &self,
        slot: &Rc<RefCell<Option<InfoBar>>>,
        kind: MessageType,
        text: &str,
        buttons: &[(&str, bool)],
        asleep: bool,
        answer: impl FnOnce(bool) + 'static,
    ) {
        let bar = InfoBar::new();
        bar.set_message_type(kind);
        // Plain text: names and addresses from a page are never read as markup.
        let label = Label::new(Some(text));
        label.set_line_wrap(true);
        label.set_line_wrap_mode(gtk::pango::WrapMode::WordChar);
        label.set_xalign(0.0);
        label.set_max_width_chars(80);
        bar.content_area().pack_start(&label, true, true, 0);
        for (caption, yes) in buttons {
            let response = if *yes {
                ResponseType::Accept
            } else {
                ResponseType::Reject
            };
            let button = bar.add_button(caption, response);
            if let Some(button) = button.filter(|_| asleep) {
                button.set_sensitive(false);
                let button = button.downgrade();
                glib::timeout_add_local_once(SLEEP, move || {
                    if let Some(button) = button.upgrade() {
                        button.set_sensitive(true);
                    }
                });
            }
        }
        let once = RefCell::new(Some(answer));
        let (slot_again, area) = (slot.clone(), self.area.clone());
        bar.connect_response(move |bar, response| {
            slot_again.borrow_mut().take();
            area.remove(bar);
            let answer = once.borrow_mut().take();
            if let Some(answer) = answer {
                answer(response == ResponseType::Accept);
            }
        });
        bar.show_all();
        self.area.pack_start(&bar, false, false, 0);
        *slot.borrow_mut() = Some(bar);
    }
}

/// Whether someone waits for the answer.
fn wanted(answer: &oneshot::Sender<bool>) -> bool {
    !answer.is_closed()
}

fn take_away(area: &gtk::Box, slot: &RefCell<Option<InfoBar>>) {
    let bar = slot.borrow_mut().take();
    if let Some(bar) = bar {
        area.remove(&bar);
    }
}
