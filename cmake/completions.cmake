# cmake -P completions.cmake PERGPU FOLDER: writes the scripts of `PERGPU completions` where each shell
# looks for them below a prefix's share/, which is FOLDER here.
cmake_minimum_required(VERSION 3.25)
set(pergpu "${CMAKE_ARGV3}")
set(folder "${CMAKE_ARGV4}")

function(write_completions shell path)
  execute_process(COMMAND "${pergpu}" completions ${shell} OUTPUT_VARIABLE script COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE "${folder}/${path}" "${script}")
endfunction()

write_completions(bash bash-completion/completions/pergpu)
write_completions(zsh zsh/site-functions/_pergpu)
write_completions(fish fish/vendor_completions.d/pergpu.fish)
