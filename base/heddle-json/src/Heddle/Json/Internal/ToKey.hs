{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.ToKey
-- Description : Types that can be keys of objects
-- Stability   : internal, exempt from the version policy
--
-- "Heddle.Json.Encode" has the class for users.
--
-- Cost: a piece for each key.
-- Owner: values.
module Heddle.Json.Internal.ToKey
  ( ToKey (..),
  )
where

import Control.Monad (void)
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Text (Text)
import Data.Text.Lazy qualified as Lazy
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Ptr (plusPtr)
import Foreign.Storable (poke)
import Heddle.Bytes.Decimal (maxDecimalLength, pokeDecimal)
import Heddle.Bytes.Double (maxDoubleLength, pokeDouble)
import Heddle.Bytes.Put.Sink (Sink)
import Heddle.Json.Build (lazyText)
import Heddle.Json.Internal.Build
import Heddle.Json.Internal.Escape (putChars)
import Heddle.Prim.AddrState (AddrState, At (..), addrState)
import Numeric.Natural (Natural)

-- | Types that can be keys of objects.
class ToKey a where
  -- | The key.
  toKey :: a -> Name

instance ToKey Text where
  toKey = nameText
  {-# INLINE toKey #-}

instance ToKey Lazy.Text where
  toKey t = case lazyText t :: Build 'One Lazy.Text of Build f -> WrittenName (void (f First))

instance ToKey [Char] where
  toKey = WrittenName . putChars
  {-# INLINE toKey #-}

instance ToKey Int where
  toKey = numberKey
  {-# INLINE toKey #-}

instance ToKey Int8 where
  toKey = numberKey . fromIntegral

instance ToKey Int16 where
  toKey = numberKey . fromIntegral

instance ToKey Int32 where
  toKey = numberKey . fromIntegral

instance ToKey Int64 where
  toKey = numberKey . fromIntegral

instance ToKey Word8 where
  toKey = numberKey . fromIntegral

instance ToKey Word16 where
  toKey = numberKey . fromIntegral

instance ToKey Word32 where
  toKey = numberKey . fromIntegral

instance ToKey Word where
  toKey = toKey . toInteger

instance ToKey Word64 where
  toKey = toKey . toInteger

instance ToKey Natural where
  toKey = toKey . toInteger

instance ToKey Integer where
  toKey = WrittenName . putChars . show

-- | Infinities and NaN are the keys @Infinity@, @-Infinity@ and @NaN@.
instance ToKey Double where
  toKey x = WrittenName . addrState $ \sink p0 -> do
    p <- room sink (2 + maxDoubleLength) p0
    poke p 0x22
    end <- pokeDouble (p `plusPtr` 1) x
    poke end 0x22
    pure (At (end `plusPtr` 1) ())

instance ToKey Bool where
  toKey b = if b then "true" else "false"

-- | The character alone.
instance ToKey Char where
  toKey = WrittenName . putChars . pure

instance ToKey a => ToKey (Identity a) where
  toKey (Identity x) = toKey x

-- | A number in quotes.
numberKey :: Int -> Name
numberKey n = WrittenName (numbered n)
{-# INLINE numberKey #-}

numbered :: Int -> AddrState Sink ()
numbered n = addrState $ \sink p0 -> do
  p <- room sink (2 + maxDecimalLength) p0
  poke p 0x22
  end <- pokeDecimal (p `plusPtr` 1) n
  poke end 0x22
  pure (At (end `plusPtr` 1) ())
