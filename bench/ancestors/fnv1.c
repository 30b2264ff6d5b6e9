/*
 * FNV-1 as the hashable package had it before its version 1.2.
 */
long ancestor_fnv1(const unsigned char *str, long len, long hash);

long ancestor_fnv1(const unsigned char *str, long len, long hash)
{
    while (len--) {
        hash = (hash * 16777619) ^ *str++;
    }
    return hash;
}
