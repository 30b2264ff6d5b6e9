{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Json.Internal.Record
-- Description : Records from objects whose keys come in any order
-- Stability   : internal; exempt from the version policy
--
-- Each field first checks whether its key comes next, and then decodes in place. At the first key that belongs to a
-- later field, the values of the rest of the object go into a table with an entry for each field, and the remaining
-- fields take their values from there. No value is read twice.
--
-- Cost: for keys in declared order, a comparison for each eight bytes; otherwise a table lookup.
-- Owner: the thread that decodes.
module Heddle.Json.Internal.Record
  ( Fields,
    field,
    Unknown (..),
    recordFrom,
  )
where

import Control.Monad (when)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Primitive.Array (Array, arrayFromListN, indexArray)
import Data.Word (Word8)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Bytes.Utf8 qualified as Utf8 (toText)
import Heddle.Bytes.Utf8.Unsafe (unsafeUtf8)
import Heddle.Json.Internal.AddrStateWith (AddrStateWith, Reached (..), addrStateWith, runAddrStateWith)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.FieldValues
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.Key
import Heddle.Json.Internal.String (unescaped)
import Heddle.Json.Malformed (Reason (..))
import Heddle.Json.Options (Duplicates (..))
import Heddle.Prim.AddrState (At (..))
import Heddle.Prim.Buffer (foreignAddress)

-- | The fields of a record, in the order in which their keys are expected.
data Fields a
  = -- Their number, the keys and decoders, and a reader, given the number of the first field.
    Fields !Int ([Member] -> [Member]) (Int -> AddrStateWith Progress Env a)

-- | A key and the decoder of its value.
data Member = Member !Key (Decoder Anything)

-- | How far an object has been read.
data Progress
  = -- | The next key or the closing bracket is here; all fields before have been read.
    InOrder !Record
  | -- | All keys have been read, and those without an entry are missing. The closing bracket is here.
    Filled !FieldValues
  | -- | As 'Filled', and all remaining fields are missing.
    Absent

-- | The constant parts of a record's decoder.
data Record = Record
  { recordKeys :: !Keys,
    recordMembers :: !(Array Member),
    recordCount :: !Int,
    recordUnknown :: !Unknown
  }

-- | The policy for keys that a record does not have.
data Unknown
  = -- | Skip their values; they are still checked.
    SkipUnknown
  | -- | An error.
    RefuseUnknown
  deriving stock (Bounded, Enum, Eq, Show)

instance Functor Fields where
  fmap f (Fields n members run) = Fields n members (fmap f . run)
  {-# INLINE fmap #-}

-- | Reads the left fields first.
instance Applicative Fields where
  pure x = Fields 0 id (\_ -> pure x)
  {-# INLINE pure #-}
  Fields n members run <*> Fields m members' run' =
    Fields (n + m) (members . members') (\i -> let !f = run i; !x = run' (i + n) in f <*> x)
  {-# INLINE (<*>) #-}

-- | A field: its key, its decoder, and its default. Without a default the key is required.
field :: Key -> Decoder a -> Maybe a -> Fields a
field key d missing = Fields 1 (Member key (anything <$> d) :) (fieldAt key d missing)
{-# INLINE field #-}

-- One closure for each field, made with the record: see Note [Closures of fields].
fieldAt :: Key -> Decoder a -> Maybe a -> Int -> AddrStateWith Progress Env a
fieldAt key0 d missing i = case itself key0 of
  !key ->
    let from env now p = case now of
          InOrder known -> do
            here <- isKey key p (envEnd env)
            if here
              then value env now (p `plusPtr` keySize key)
              else
                search known i env p >>= \case
                  Found q -> value env now q
                  Rest now' q -> taken env now' q
          _ -> taken env now p
        value env now q = do
          v <- space env q
          At r x <- runDecoder d env v
          r' <- nextMember env r
          pure (Reached now r' x)
        taken env now p = case now of
          Filled entries -> unsafeFieldValue entries i (absent env now p) (pure . Reached now p)
          _ -> absent env now p
        absent env now p = case missing of
          Just x -> pure (Reached now p x)
          Nothing -> failAt env p (MissingKey (keyText key))
     in addrStateWith from
{-# NOINLINE fieldAt #-}

itself :: Key -> Key
itself key = key
{-# NOINLINE itself #-}

data Searched
  = -- | The expected key: its value begins here, after white space if there is some.
    Found !(Ptr Word8)
  | -- | The whole object was read, up to its closing bracket.
    Rest !Progress !(Ptr Word8)

-- | Called where something other than the expected key begins. Skips unknown keys; from the first key of a
-- later field on, puts the values of the object into entries.
search :: Record -> Int -> Env -> Ptr Word8 -> IO Searched
search record i env = go
  where
    go p = do
      c <- byteAt env p
      if c == 0x7d
        then pure (Rest Absent p)
        else do
          At q j <- memberKey record env p
          if
              | j == i && inOrder -> pure (Found q)
              | j < i && (j < 0 || inOrder) -> do
                when (j >= 0) (again p j)
                v <- space env q
                r <- skipValue env v >>= nextMember env
                expect r
              | otherwise -> do
                entries <- newFieldValues (recordCount record)
                r <- fill record i env entries p
                pure (Rest (Filled entries) r)
    inOrder = envDuplicates env /= DuplicatesLast
    expect p
      | i < recordCount record && inOrder = do
        let Member key _ = indexArray (recordMembers record) i
        here <- isKey key p (envEnd env)
        if here then pure (Found (p `plusPtr` keySize key)) else go p
      | otherwise = go p
    again p j = case envDuplicates env of
      DuplicatesRefused -> failAt env p (DuplicateKey (keyText (memberName record j)))
      _ -> pure ()
{-# NOINLINE search #-}

memberName :: Record -> Int -> Key
memberName record j = let Member key _ = indexArray (recordMembers record) j in key

-- | Put the values of the rest of an object into entries. The fields before this number have been read.
-- Returns the address of the closing bracket.
fill :: Record -> Int -> Env -> FieldValues -> Ptr Word8 -> IO (Ptr Word8)
fill record done env entries = go done
  where
    go next p = do
      c <- byteAt env p
      if c == 0x7d
        then pure p
        else
          if next < recordCount record
            then do
              let Member key d = indexArray (recordMembers record) next
              here <- isKey key p (envEnd env)
              if here then member p next d (p `plusPtr` keySize key) else byName next p
            else byName next p
    byName next p = do
      At q j <- memberKey record env p
      if j < 0
        then skipped next q
        else let Member _ d = indexArray (recordMembers record) j in member p j d q
    skipped next q = do
      v <- space env q
      r <- skipValue env v >>= nextMember env
      go next r
    member p j d q = do
      there <- if j < done then pure True else hasFieldValue entries j
      if
          | not there || envDuplicates env == DuplicatesLast -> do
            v <- space env q
            At r x <- runDecoder d env v
            putFieldValue entries j x
            r' <- nextMember env r
            go (j + 1) r'
          | envDuplicates env == DuplicatesRefused -> failAt env p (DuplicateKey (keyText (memberName record j)))
          | otherwise -> skipped (j + 1) q
{-# NOINLINE fill #-}

-- | The number of the key that begins here, or -1, and where its colon ends.
memberKey :: Record -> Env -> Ptr Word8 -> IO (At Int)
memberKey record env p = do
  c <- byteAt env p
  when (c /= 0x22) (expected env p "a key")
  let from = p `plusPtr` 1
  a <- closeString env from
  let close = from `plusPtr` answerOffset a
  j <-
    if hasEscapes a
      then do
        name <- unescaped env from (answerOffset a)
        -- 'findKey' wants the quotes around the contents.
        let (input, offset, len) = ByteString.toForeignPtr (ByteString.cons 0x22 (ByteString.snoc name 0x22))
        j <- findKey (recordKeys record) (foreignAddress input `plusPtr` offset) (len - 2)
        touchForeignPtr input
        pure j
      else do
        when (hasHigh a) (checkString env from close)
        findKey (recordKeys record) p (answerOffset a)
  when (j < 0 && recordUnknown record == RefuseUnknown) (unknown from a)
  q <- colon env (close `plusPtr` 1)
  pure (At q j)
  where
    unknown from a = do
      name <- unescaped env from (answerOffset a)
      failAt env p (UnknownKey (Utf8.toText (unsafeUtf8 name)))

-- | Skip the colon and the white space around it.
colon :: Env -> Ptr Word8 -> IO (Ptr Word8)
colon env p = do
  q <- space env p
  c <- byteAt env q
  if c == 0x3a then pure (q `plusPtr` 1) else expected env q "':'"
{-# INLINE colon #-}

-- | After a member: the address of the next key or of the closing bracket.
nextMember :: Env -> Ptr Word8 -> IO (Ptr Word8)
nextMember env p = do
  q <- space env p
  c <- byteAt env q
  if
      | c == 0x2c -> do
        r <- space env (q `plusPtr` 1)
        c' <- byteAt env r
        if c' == 0x22 then pure r else expected env r "a key"
      | c == 0x7d -> pure q
      | otherwise -> expected env q "',' or '}'"
{-# INLINE nextMember #-}

-- | The object that begins here.
--
-- [Cost]: the module's.
recordFrom :: Unknown -> Fields a -> Decoder a
recordFrom unknown (Fields n members run) = decoder $ \env p -> do
  c <- byteAt env p
  if c /= 0x7b
    then wrongKind env p "an object"
    else deeper env p $ \q -> do
      c' <- byteAt env q
      when (c' /= 0x22 && c' /= 0x7d) (expected env q "a key or '}'")
      if envDuplicates env == DuplicatesLast
        then do
          -- Any value may be replaced by a later one, so all go into entries.
          entries <- newFieldValues n
          r <- fill record 0 env entries q
          ends env (Filled entries) r
        else ends env (InOrder record) q
  where
    !fields = run 0
    !record =
      Record
        { recordKeys = newKeys [key | Member key _ <- list],
          recordMembers = arrayFromListN n list,
          recordCount = n,
          recordUnknown = unknown
        }
    list = members []
    ends env now q = do
      Reached now' r x <- runAddrStateWith fields env now q
      case now' of
        InOrder _ ->
          peekEnd env r >>= \closed ->
            if closed
              then pure (At (r `plusPtr` 1) x)
              else
                search record n env r >>= \case
                  Rest _ r' -> pure (At (r' `plusPtr` 1) x)
                  Found r' -> expected env r' "a value"
        _ -> pure (At (r `plusPtr` 1) x)
    peekEnd env r = (== 0x7d) <$> byteAt env r
{-# INLINE recordFrom #-}

-- Note [Closures of fields]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- A record's decoder calls one closure for each field, which captures all that it needs. Left alone, GHC
-- makes 'fieldAt' a function of eight arguments and the closures partial applications, which are slow to
-- call. It does not if there is work before the lambda, and it does not know that 'itself' is none.
