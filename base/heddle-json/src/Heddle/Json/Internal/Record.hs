{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Json.Internal.Record
-- Description : Records from objects whose keys come in any order
-- Stability   : internal; exempt from the version policy
--
-- One loop reads the objects of all record types: for each field it first checks whether its key comes next, and decodes
-- the value in place. At the first key that belongs to a later field it looks up the keys of the rest of the object. The
-- values go into an array with an element for each field, from which the record is built at the end. No value is read
-- twice, and what is compiled for a type is its list of fields and the building only.
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
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromListN)
import Data.Word (Word8)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Bytes.Utf8 qualified as Utf8 (toText)
import Heddle.Bytes.Utf8.Unsafe (unsafeUtf8)
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
  = -- Their number, the keys and decoders, and the result from their values, given the number of the first field.
    Fields !Int ([Member] -> [Member]) (FieldValues -> Int -> (# a #))

-- | A key, the decoder of its value, and the value where the key is missing, unless it must not be.
data Member = Member !Key (Decoder Anything) !(Maybe Anything)

-- | The constant parts of a record's decoder.
data Record = Record
  { recordKeys :: !Keys,
    recordMembers :: !(SmallArray Member),
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
  fmap f (Fields n members build) = Fields n members $ \values i -> case build values i of
    (# x #) -> case f x of !y -> (# y #)
  {-# INLINE fmap #-}

-- | Reads the left fields first.
instance Applicative Fields where
  pure x = Fields 0 id (\_ _ -> (# x #))
  {-# INLINE pure #-}
  Fields n members build <*> Fields m members' build' =
    Fields (n + m) (members . members') $ \values i -> case build values i of
      (# f #) -> case build' values (i + n) of
        (# x #) -> case f x of !y -> (# y #)
  {-# INLINE (<*>) #-}

-- | A field: its key, its decoder, and its default. Without a default the key is required.
field :: Key -> Decoder a -> Maybe a -> Fields a
field key d missing = Fields 1 (member key d missing :) unsafeFieldValue
{-# INLINE field #-}

member :: Key -> Decoder a -> Maybe a -> Member
member key d missing = Member key (anythings d) (anythings missing)
{-# NOINLINE member #-}

-- | The object that begins here.
--
-- [Cost]: the module's.
recordFrom :: Unknown -> Fields a -> Decoder a
recordFrom unknown (Fields n members build) = decoder $ \env p -> do
  At q values <- membersOf record env p
  case build values 0 of (# x #) -> pure (At q x)
  where
    !record = newRecord unknown n (members [])
{-# INLINE recordFrom #-}

newRecord :: Unknown -> Int -> [Member] -> Record
newRecord unknown n members =
  Record
    { recordKeys = newKeys [key | Member key _ _ <- members],
      recordMembers = smallArrayFromListN n members,
      recordCount = n,
      recordUnknown = unknown
    }
{-# NOINLINE newRecord #-}

-- | The values of the object that begins here.
membersOf :: Record -> Env -> Ptr Word8 -> IO (At FieldValues)
membersOf record env p0 = do
  c <- byteAt env p0
  if c /= 0x7b
    then wrongKind env p0 "an object"
    else deeper env p0 $ \q -> do
      c' <- byteAt env q
      when (c' /= 0x22 && c' /= 0x7d) (expected env q "a key or '}'")
      entries <- newEntries count
      -- Where the last of equal keys counts, any value may be replaced by a later one.
      r <- if envDuplicates env == DuplicatesLast then fill record 0 env entries q else inOrder entries 0 q
      values <- unsafeFieldValues entries
      pure (At (r `plusPtr` 1) values)
  where
    count = recordCount record
    members = recordMembers record
    -- The next key or the closing bracket is here; all fields before have been read.
    inOrder entries !i p
      | i < count = case indexSmallArray members i of
        Member key d _ -> do
          here <- isKey key p (envEnd env)
          if here
            then value entries i d (p `plusPtr` keySize key)
            else
              search record i env entries p >>= \case
                Found q -> value entries i d q
                Rest q -> pure q
      | otherwise = do
        c <- byteAt env p
        if c == 0x7d
          then pure p
          else
            search record count env entries p >>= \case
              Rest q -> pure q
              Found q -> expected env q "a value"
    value entries i d q = do
      v <- space env q
      At r x <- runDecoder d env v
      putEntry entries i x
      nextMember env r >>= inOrder entries (i + 1)
{-# NOINLINE membersOf #-}

data Searched
  = -- | The expected key: its value begins here, after white space if there is some.
    Found !(Ptr Word8)
  | -- | The whole object was read, up to its closing bracket, and all entries have a value.
    Rest !(Ptr Word8)

-- | Called where something other than the expected key begins. Skips unknown keys; from the first key of a
-- later field on, puts the values of the object into entries.
search :: Record -> Int -> Env -> Entries -> Ptr Word8 -> IO Searched
search record i env entries = go
  where
    go p = do
      c <- byteAt env p
      if c == 0x7d
        then Rest p <$ absent record env entries p (pure . (< i))
        else do
          At q j <- memberKey record env p
          if
              | j == i && inOrder -> pure (Found q)
              | j < i && (j < 0 || inOrder) -> do
                when (j >= 0) (again p j)
                v <- space env q
                r <- skipValue env v >>= nextMember env
                expect r
              | otherwise -> Rest <$> fill record i env entries p
    inOrder = envDuplicates env /= DuplicatesLast
    expect p
      | i < recordCount record && inOrder = do
        let Member key _ _ = indexSmallArray (recordMembers record) i
        here <- isKey key p (envEnd env)
        if here then pure (Found (p `plusPtr` keySize key)) else go p
      | otherwise = go p
    again p j = case envDuplicates env of
      DuplicatesRefused -> failAt env p (DuplicateKey (keyText (memberName record j)))
      _ -> pure ()
{-# NOINLINE search #-}

memberName :: Record -> Int -> Key
memberName record j = let Member key _ _ = indexSmallArray (recordMembers record) j in key

-- | Put the values of the rest of an object into entries. The fields before this number have been read.
-- Returns the address of the closing bracket.
fill :: Record -> Int -> Env -> Entries -> Ptr Word8 -> IO (Ptr Word8)
fill record done env entries start = do
  there <- newPresence (recordCount record)
  let go next p = do
        c <- byteAt env p
        if c == 0x7d
          then p <$ absent record env entries p (\j -> if j < done then pure True else isPresent there j)
          else
            if next < recordCount record
              then do
                let Member key d _ = indexSmallArray (recordMembers record) next
                here <- isKey key p (envEnd env)
                if here then value p next d (p `plusPtr` keySize key) else byName next p
              else byName next p
      byName next p = do
        At q j <- memberKey record env p
        if j < 0
          then skipped next q
          else let Member _ d _ = indexSmallArray (recordMembers record) j in value p j d q
      skipped next q = do
        v <- space env q
        r <- skipValue env v >>= nextMember env
        go next r
      value p j d q = do
        had <- if j < done then pure True else isPresent there j
        if
            | not had || envDuplicates env == DuplicatesLast -> do
              v <- space env q
              At r x <- runDecoder d env v
              putEntry entries j x
              setPresent there j
              r' <- nextMember env r
              go (j + 1) r'
            | envDuplicates env == DuplicatesRefused -> failAt env p (DuplicateKey (keyText (memberName record j)))
            | otherwise -> skipped (j + 1) q
  go done start
{-# NOINLINE fill #-}

-- | At the closing bracket: the defaults of the fields that were not there.
absent :: Record -> Env -> Entries -> Ptr Word8 -> (Int -> IO Bool) -> IO ()
absent record env entries p there = go 0
  where
    go i = when (i < recordCount record) $ do
      had <- there i
      case indexSmallArray (recordMembers record) i of
        Member key _ missing
          | had -> pure ()
          | Just x <- missing -> putEntry entries i x
          | otherwise -> failAt env p (MissingKey (keyText key))
      go (i + 1)
{-# NOINLINE absent #-}

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
