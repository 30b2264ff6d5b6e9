/* Change the number of capabilities, from one capability that no change disables.
 *
 * The runtime's setNumCapabilities makes a call into Haskell (it tells the event manager), on the
 * capability that was free last. If the change has disabled that one, the call's thread, which is
 * bound and so does not migrate, is never woken again in GHC 9.0, and the call never returns.
 * Capability 0 is never disabled. The preference belongs to the thread of the system, so both
 * calls are made in one. */
#include <stdint.h>

/* From RtsAPI.h and rts/Threads.h. */
void rts_setInCallCapability(int preferred_capability, int affinity);
void setNumCapabilities(uint32_t n);

void heddle_set_capabilities(uint32_t n)
{
    rts_setInCallCapability(0, 0);
    setNumCapabilities(n);
    rts_setInCallCapability(-1, 0);
}
