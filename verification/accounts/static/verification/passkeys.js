// Asks the browser for a passkey, and sends its answer by the form of the button.
// The button shows only where this works.
(function () {
  var button = document.querySelector("[data-passkey]");
  var failed = document.getElementById("passkey-failed");
  if (!window.PublicKeyCredential) return;
  var data = JSON.parse(document.getElementById("passkey-options").textContent);
  var options = data.creation_options || data.request_options;
  document.getElementById("passkey-unknown").hidden = true;
  button.hidden = false;
  button.addEventListener("click", function () {
    failed.hidden = true;
    webauthnJSON[button.dataset.passkey](options).then(function (answer) {
      button.form.elements.credential.value = JSON.stringify(answer);
      button.form.submit();
    }).catch(function () { failed.hidden = false; });
  });
})();
