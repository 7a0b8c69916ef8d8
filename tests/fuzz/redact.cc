// Command lines on their way to people: one word a line.  The secret that is put in after a name
// never comes out, whatever stands around it.
#include "job/redact.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  constexpr std::string_view kSecret = "s3cret-value";
  const std::string_view text = fuzz::text_of(data, size);
  if (text.find(kSecret) != text.npos) return 0;
  fuzz::Input input(data, size);
  std::vector<std::string> words;
  while (!input.empty() && words.size() < 40) words.emplace_back(input.line());

  std::vector<std::string> before = redact_words(words);
  fuzz::check(before.size() == words.size(), "no word is lost");
  words.insert(words.end(), {"-x", "--api-token", std::string(kSecret),
                             "HF_TOKEN=" + std::string(kSecret) + " " + std::string(kSecret),
                             "https://me:" + std::string(kSecret) + "@host/"});
  for (const std::string& word : redact_words(words))
    fuzz::check(word.find(kSecret) == word.npos, "a secret is not shown");

  // The same in a text for a shell, which may say anything before but leave a name or quote open.
  const std::string shell = std::string(text) + "\n; t.py --password " + std::string(kSecret);
  fuzz::check(redact_text(shell).find(kSecret) == std::string::npos, "a secret is not shown");
  (void)is_secret_name(text);
  return 0;
}
