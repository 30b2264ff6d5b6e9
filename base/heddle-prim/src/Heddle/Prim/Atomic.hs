{-# LANGUAGE CPP #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Prim.Atomic
-- Description : Shared words, references and stacks
-- Stability   : stable
--
-- The atomic memory operations that Heddle is built on. Plain reads and writes of 'Words' are
-- single machine words (never torn) without ordering. What a thread does before a
-- 'writeRelease' is seen by a thread that reads the value with 'readAcquire'. The operations
-- named atomic, fetch or compare, 'modifyRef' and those on stacks are sequentially consistent, and
-- all but 'atomicRead' are full barriers. See Note [Which machine].
--
-- Cost: plain, acquire and release 1 ns; atomic 5 to 20 ns uncontended.
-- Owner: the data structure that uses them; each documents its own.
module Heddle.Prim.Atomic
  ( -- * Arrays of machine words
    Words,
    newWords,
    growWords,
    wordCount,
    readWord,
    writeWord,
    prefetchWord,
    readAcquire,
    writeRelease,
    atomicRead,
    atomicWrite,
    fetchAdd,
    fetchOr,
    compareAndSet,

    -- * References
    Ref,
    newRef,
    readRef,
    writeRef,
    modifyRef,
    sameRef,

    -- * Arrays of references
    Table,
    newTable,
    growTable,
    tableSize,
    readEntry,
    writeEntry,

    -- * Arrays of references, many of them

    -- | The collector visits every 'Table' that has outlived a few collections at each later one, written or not. For a
    -- data structure with thousands of them, these are visited only after they have been written.
    Refs,
    newRefs,
    refAt,
    refCount,
    Places,
    newPlaces,
    placeCount,
    readPlace,
    writePlace,

    -- * Stacks
    Stack,
    newStack,
    push,
    takeAll,
    pop,
    isEmpty,

    -- * Fences

    -- | For memory that is not in an array of words.
    acquireFence,
    releaseFence,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.Array
  ( MutableArray,
    copyMutableArray,
    newArray,
    readArray,
    sizeofMutableArray,
    writeArray,
  )
import Data.Primitive.ByteArray
  ( MutableByteArray (..),
    copyMutableByteArray,
    getSizeofMutableByteArray,
    newByteArray,
    readByteArray,
    setByteArray,
    writeByteArray,
  )
import Data.Primitive.MutVar (MutVar (..), newMutVar, readMutVar, writeMutVar)
import GHC.Exts
  ( ArrayArray#,
    Int (I#),
    State#,
    atomicReadIntArray#,
    atomicWriteIntArray#,
    casIntArray#,
    casMutVar#,
    fetchAddIntArray#,
    fetchOrIntArray#,
    indexArrayArrayArray#,
    isTrue#,
    newArrayArray#,
    newMutVar#,
    prefetchMutableByteArray3#,
    sizeofArrayArray#,
    uncheckedIShiftL#,
    unsafeCoerce#,
    unsafeFreezeArrayArray#,
    writeArrayArrayArray#,
    (+#),
    (==#),
    (>=#),
  )
import GHC.IO (IO (..), unIO)

-- | A fixed number of machine words, all zero at first.
newtype Words = Words (MutableByteArray RealWorld)

-- | An array of this many words, all zero.
--
-- [Cost]: O(n).
newWords :: Int -> IO Words
newWords n = do
  a <- newByteArray (n * 8)
  setByteArray a 0 n (0 :: Int)
  pure (Words a)

-- | A larger copy; the added words are zero.
--
-- [Cost]: O(n).
-- [Threads]: writes to the old array during the copy may be lost.
growWords :: Words -> Int -> IO Words
growWords old@(Words a) n = do
  size <- wordCount old
  new@(Words b) <- newWords n
  copyMutableByteArray b 0 a 0 (min size n * 8)
  pure new

-- | The number of words.
wordCount :: Words -> IO Int
wordCount (Words a) = (`quot` 8) <$> getSizeofMutableByteArray a

-- | Plain read.
readWord :: Words -> Int -> IO Int
readWord (Words a) = readByteArray a
{-# INLINE readWord #-}

-- | Plain write.
writeWord :: Words -> Int -> Int -> IO ()
writeWord (Words a) = writeByteArray a
{-# INLINE writeWord #-}

-- | Ask the processor to bring a word's cache line near, so that reading it soon does not wait for memory.
--
-- [Cost]: one instruction; the memory's bandwidth for a line.
-- [Blocks]: never.
-- [Threads]: any.
prefetchWord :: Words -> Int -> IO ()
prefetchWord (Words (MutableByteArray a)) (I# i) = IO (\s -> (# prefetchMutableByteArray3# a (uncheckedIShiftL# i 3#) s, () #))
{-# INLINE prefetchWord #-}

-- | Read; what the calling thread does afterwards happens after what the writer of the value
-- did before its 'writeRelease', or before any atomic operation that wrote it.
--
-- [Cost]: a plain read on x86-64.
readAcquire :: Words -> Int -> IO Int
readAcquire = atomicRead
{-# INLINE readAcquire #-}

-- | Write. A thread that reads the value with 'readAcquire' sees what the calling thread wrote before.
--
-- [Cost]: a plain write on x86-64.
writeRelease :: Words -> Int -> Int -> IO ()
writeRelease ws i x = releaseFence >> writeWord ws i x
{-# INLINE writeRelease #-}

-- | Sequentially consistent read.
atomicRead :: Words -> Int -> IO Int
atomicRead (Words (MutableByteArray a)) (I# i) = IO $ \s ->
  case atomicReadIntArray# a i s of (# s', v #) -> (# s', I# v #)
{-# INLINE atomicRead #-}

-- | Sequentially consistent write: later reads, including plain ones, happen after it.
atomicWrite :: Words -> Int -> Int -> IO ()
atomicWrite (Words (MutableByteArray a)) (I# i) (I# v) = IO $ \s ->
  case atomicWriteIntArray# a i v s of s' -> fenced () s'
{-# INLINE atomicWrite #-}

-- | Add, and return the previous value.
fetchAdd :: Words -> Int -> Int -> IO Int
fetchAdd (Words (MutableByteArray a)) (I# i) (I# v) = IO $ \s ->
  case fetchAddIntArray# a i v s of (# s', old #) -> fenced (I# old) s'
{-# INLINE fetchAdd #-}

-- | Set bits, and return the previous value.
fetchOr :: Words -> Int -> Int -> IO Int
fetchOr (Words (MutableByteArray a)) (I# i) (I# v) = IO $ \s ->
  case fetchOrIntArray# a i v s of (# s', old #) -> fenced (I# old) s'
{-# INLINE fetchOr #-}

-- | @compareAndSet w i old new@ writes @new@ if the word is @old@; 'True' if it did.
compareAndSet :: Words -> Int -> Int -> Int -> IO Bool
compareAndSet (Words (MutableByteArray a)) (I# i) (I# old) (I# new) = IO $ \s ->
  case casIntArray# a i old new s of (# s', was #) -> fenced (isTrue# (was ==# old)) s'
{-# INLINE compareAndSet #-}

-- | A mutable reference.
newtype Ref a = Ref (MutVar RealWorld a)

-- | A reference to a value, evaluated first.
newRef :: a -> IO (Ref a)
newRef !x = Ref <$> newMutVar x

-- | Read.
readRef :: Ref a -> IO a
readRef (Ref r) = readMutVar r
{-# INLINE readRef #-}

-- | Write, evaluated first, so that no thunk is kept.
writeRef :: Ref a -> a -> IO ()
writeRef (Ref r) !x = writeMutVar r x
{-# INLINE writeRef #-}

-- | Replace the value atomically by the function's first result, evaluated; returns the second.
--
-- [Cost]: retries when another thread writes in between.
modifyRef :: Ref a -> (a -> (a, b)) -> IO b
modifyRef (Ref (MutVar r)) f = IO go
  where
    go s = case readMutVar (MutVar r) of
      IO look -> case look s of
        (# s1, old #) -> case f old of
          (!new, out) -> case casMutVar# r old new s1 of
            (# s2, 0#, _ #) -> fenced out s2
            (# s2, _, _ #) -> go s2
{-# INLINE modifyRef #-}

-- | Are both the same reference?
sameRef :: Ref a -> Ref a -> Bool
sameRef (Ref a) (Ref b) = a == b
{-# INLINE sameRef #-}

-- | A fixed number of boxed entries.
newtype Table a = Table (MutableArray RealWorld a)

-- | A table filled with one value.
--
-- [Cost]: O(n).
newTable :: Int -> a -> IO (Table a)
newTable n x = Table <$> newArray n x

-- | A larger copy; the added entries are the given value.
--
-- [Cost]: O(n).
-- [Threads]: writes to the old table during the copy may be lost.
growTable :: Table a -> Int -> a -> IO (Table a)
growTable old@(Table a) n x = do
  b <- newArray n x
  copyMutableArray b 0 a 0 (min n (tableSize old))
  pure (Table b)

-- | The number of entries.
tableSize :: Table a -> Int
tableSize (Table a) = sizeofMutableArray a

-- | Read an entry.
readEntry :: Table a -> Int -> IO a
readEntry (Table a) = readArray a
{-# INLINE readEntry #-}

-- | Write an entry.
writeEntry :: Table a -> Int -> a -> IO ()
writeEntry (Table a) = writeArray a
{-# INLINE writeEntry #-}

-- | A fixed number of references. See Note [Which arrays are visited].
data Refs a = Refs ArrayArray#

-- | So many references to one value, evaluated first.
--
-- [Cost]: O(n); 24 bytes each, and 40.
newRefs :: Int -> a -> IO (Refs a)
newRefs (I# n) !x = IO $ \s ->
  case newArrayArray# n s of
    (# s1, array #) -> case unsafeFreezeArrayArray# array (fill array 0# s1) of
      (# s2, refs #) -> (# s2, Refs refs #)
  where
    fill array i s
      | isTrue# (i >=# n) = s
      | otherwise = case newMutVar# x s of
        (# s1, r #) -> fill array (i +# 1#) (writeArrayArrayArray# array i (unsafeCoerce# r) s1)

-- | One of them, by its place from 0.
--
-- [Cost]: a load.
refAt :: Refs a -> Int -> Ref a
refAt (Refs refs) (I# i) = Ref (MutVar (unsafeCoerce# (indexArrayArrayArray# refs i)))
{-# INLINE refAt #-}

-- | The number of references.
refCount :: Refs a -> Int
refCount (Refs refs) = I# (sizeofArrayArray# refs)
{-# INLINE refCount #-}

-- | A fixed number of boxed entries, like a 'Table', of which there may be many: up to 4 entries are references.
-- With more, a visit of the collector's is shared by those.
data Places a
  = Few !(Refs a)
  | Many !(Table a)

-- | So many entries with one value, evaluated first.
--
-- [Cost]: O(n); up to 4 entries 24 bytes each, otherwise 8.
newPlaces :: Int -> a -> IO (Places a)
newPlaces n !x
  | n <= 4 = Few <$> newRefs n x
  | otherwise = Many <$> newTable n x

-- | The number of entries.
placeCount :: Places a -> Int
placeCount = \case
  Few refs -> refCount refs
  Many table -> tableSize table

-- | Read an entry.
readPlace :: Places a -> Int -> IO a
readPlace places i = case places of
  Few refs -> readRef (refAt refs i)
  Many table -> readEntry table i
{-# INLINE readPlace #-}

-- | Write an entry.
writePlace :: Places a -> Int -> a -> IO ()
writePlace places i x = case places of
  Few refs -> writeRef (refAt refs i) x
  Many table -> writeEntry table i x
{-# INLINE writePlace #-}

-- | A lock-free stack for any number of threads.
newtype Stack a = Stack (Ref [a])

-- | An empty stack.
newStack :: IO (Stack a)
newStack = Stack <$> newRef []

-- | Push.
--
-- [Cost]: one compare-and-set; 24 bytes.
-- [Blocks]: never.
push :: Stack a -> a -> IO ()
push (Stack r) !x = modifyRef r (\xs -> (x : xs, ()))

-- | Take all elements, the last pushed one first.
--
-- [Cost]: one read when empty, else one compare-and-set.
-- [Blocks]: never.
takeAll :: Stack a -> IO [a]
takeAll (Stack r) =
  readRef r >>= \case
    [] -> pure []
    _ -> modifyRef r (\xs -> ([], xs))
{-# INLINE takeAll #-}

-- | Take the last pushed element.
--
-- [Cost]: one compare-and-set. There is no ABA problem: the collector reuses no cell that a thread still holds.
-- [Blocks]: never.
pop :: Stack a -> IO (Maybe a)
pop (Stack r) =
  readRef r >>= \case
    [] -> pure Nothing
    _ -> modifyRef r (\case [] -> ([], Nothing); x : xs -> (xs, Just x))

-- | Is the stack empty? Other threads may change that at once.
isEmpty :: Stack a -> IO Bool
isEmpty (Stack r) = null <$> readRef r
{-# INLINE isEmpty #-}

-- Fences -----------------------------------------------------------------------

-- | What the calling thread does afterwards happens after its earlier reads. If one of these saw a write
-- that followed a 'releaseFence', it also happens after what preceded that fence.
--
-- [Cost]: nothing on x86-64.
acquireFence :: IO ()
acquireFence = fence
{-# INLINE acquireFence #-}

-- | What the calling thread has done happens before its later writes.
--
-- [Cost]: nothing on x86-64.
releaseFence :: IO ()
releaseFence = fence
{-# INLINE releaseFence #-}

-- | The result of an atomic operation, made a full barrier by a fence.
fenced :: a -> State# RealWorld -> (# State# RealWorld, a #)
fenced x s = case unIO fence s of (# s', () #) -> (# s', x #)
{-# INLINE fenced #-}

-- | A barrier on machines where plain accesses and atomic operations of our kind need one.
fence :: IO ()
#if defined(x86_64_HOST_ARCH) && !defined(__GLASGOW_HASKELL_LLVM__) && !defined(HEDDLE_WEAK_MEMORY)
fence = pure ()
{-# INLINE fence #-}
#else
fence = c_fence

-- Unsafe: one instruction, and it must not be a safe point of the callers.
foreign import ccall unsafe "heddle_fence" c_fence :: IO ()
#endif

-- Note [Which machine]
-- ~~~~~~~~~~~~~~~~~~~~
-- x86-64 makes a thread's stores visible in their order and does not move a load before an
-- earlier load; GHC's own code generator keeps the order of memory accesses as written. So a
-- release write and an acquire read are plain moves there, and an atomic write (with mfence)
-- and the locked operations are already full barriers. @scripts/check_ordering.py@ checks the
-- assembly, so that no compiler changes that unnoticed.
--
-- Elsewhere, and with GHC's LLVM back end, which moves plain accesses, a release write is a
-- fence and a write. GHC's atomic operations are sequentially consistent among themselves,
-- but on AArch64, for example, a plain read may pass an earlier atomic write. So a fence follows each of
-- them and makes it a full barrier, on which its users rely. The flag @HEDDLE_WEAK_MEMORY@ selects this on
-- x86-64, too, for tests.
--
-- Note [Which arrays are visited]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A generational collector visits old objects that may point to young ones. GHC's keeps every
-- mutable array that has become old in the list of those, for as long as it lives, whereas a
-- mutable variable is in the list only if it was written since the last collection. So n small arrays cost n visits at
-- each minor collection, and each thing that is made costs more the more there are. 'Refs' are a frozen
-- array, which leaves the list, of variables.
--
-- The array has the variables themselves, without boxes around them. As an array of arrays it has unlifted
-- elements, which are never evaluated, and for the collector a pointer is a pointer.
