//! Questions and messages above a page, drawn by us: the page can neither see nor click them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use gtk::glib;
use gtk::prelude::*;
use gtk::{InfoBar, Label, MessageType, Orientation, ResponseType};
use tokio::sync::oneshot;

use super::super::bridge::Question;

/// How long the buttons of a question sleep: a page that makes a question appear under a hand that is about to click
/// gains nothing.
const SLEEP: Duration = Duration::from_millis(700);

/// The place above one page.
pub struct Bars {
    area: gtk::Box,
    question: Rc<RefCell<Option<InfoBar>>>,
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
            trouble: Rc::default(),
        }
    }

    /// Asks. While another question stands, the sender is dropped, which means no.
    pub fn ask(&self, question: &Question, answer: oneshot::Sender<bool>) {
        if self.question.borrow().is_some() {
            return;
        }
        let buttons = [(question.yes, true), (question.no, false)];
        let answer = move |yes| {
            let _ = answer.send(yes);
        };
        self.show(
            &self.question,
            MessageType::Question,
            &question.text,
            &buttons,
            true,
            answer,
        );
    }

    /// Shows a message instead of whatever stands there; an open question counts as declined.
    pub fn trouble(&self, text: &str, buttons: &[(&str, bool)], answer: impl FnOnce(bool) + 'static) {
        self.clear();
        self.show(&self.trouble, MessageType::Warning, text, buttons, false, answer);
    }

    /// Takes everything away.
    pub fn clear(&self) {
        for slot in [&self.question, &self.trouble] {
            let bar = slot.borrow_mut().take();
            if let Some(bar) = bar {
                self.area.remove(&bar);
            }
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
