import { t } from "../../i18n";
import { writeRoute } from "../../route";

/** What happened, and what it cost. */
export function ActivityTabs({ now }: { now: "log" | "spend" }) {
  return (
    <nav className="tabs" aria-label={t.activity.title}>
      <a href={writeRoute({ screen: "activity" })} aria-current={now === "log" ? "page" : undefined}>
        {t.spend.log}
      </a>
      <a href={writeRoute({ screen: "spend" })} aria-current={now === "spend" ? "page" : undefined}>
        {t.spend.tab}
      </a>
    </nav>
  );
}
