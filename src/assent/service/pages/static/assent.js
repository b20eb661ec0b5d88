// Makes the pages nicer and is never needed: counts changes that are not saved yet.
"use strict";
for (const form of document.querySelectorAll("form[data-unsaved]")) {
  const said = form.querySelector("[data-said]");
  const selects = [...form.querySelectorAll("select")];
  const count = () => {
    const changed = selects.filter((each) => !each.options[each.selectedIndex].defaultSelected).length;
    const text = changed === 1 ? form.dataset.one : form.dataset.unsaved.replace("{n}", changed);
    said.textContent = changed ? text : "";
  };
  form.addEventListener("change", count);
  form.addEventListener("reset", () => setTimeout(count));
}
