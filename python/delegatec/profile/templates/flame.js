// SPDX-License-Identifier: Apache-2.0
// Enlarges a frame of the flame chart to its width, and the frame above it again.
for (const flame of document.querySelectorAll(".flame")) {
  const frames = [...flame.children].map((element) => ({
    element,
    left: parseFloat(element.style.left),
    width: parseFloat(element.style.width),
    top: parseFloat(element.style.top),
  }));
  let shown = frames[0];
  const show = (target) => {
    shown = target;
    const end = target.left + target.width, slack = 1e-3;
    for (const { element, left, width, top } of frames) {
      const above = top < target.top && left <= target.left + slack && left + width >= end - slack;
      const inside = top >= target.top && left >= target.left - slack && left + width <= end + slack;
      element.style.display = above || inside ? "" : "none";
      element.classList.toggle("over", above);
      element.style.left = above ? "0%" : `${((left - target.left) / target.width) * 100}%`;
      element.style.width = above ? "100%" : `${(width / target.width) * 100}%`;
    }
  };
  for (const frame of frames) {
    frame.element.addEventListener("click", () => show(frame === shown ? frames[0] : frame));
  }
}
