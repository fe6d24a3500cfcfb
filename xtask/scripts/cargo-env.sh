# Puts cargo on the PATH where a user has it but the shell (sudo's, say) does not; sourced by the Makefile.
for kelpie_home in "${CARGO_HOME:-}" "$HOME/.cargo" \
    ${SUDO_USER:+"$(getent passwd "$SUDO_USER" | cut -d: -f6)/.cargo"} /usr/local/cargo; do
    if [ -n "$kelpie_home" ] && [ -x "$kelpie_home/bin/cargo" ]; then
        PATH="$PATH:$kelpie_home/bin"
    fi
done
unset kelpie_home
export PATH
