-- |
-- Module      : Heddle.MPI.Internal.Message.TextUnits
-- Description : The bytes of a Text in a message: UTF-16
-- Stability   : internal, exempt from the version policy
--
-- A message has a text in its memory representation, since its sender and its receiver are one program. This is for
-- text 1; the module of the same name in @text-2@ has the same interface.
--
-- Cost: a copy, and a check when it is read.
-- Owner: values.
module Heddle.MPI.Internal.Message.TextUnits
  ( textBytes,
    pokeText,
    peekText,
  )
where

import Data.Text (Text)
import Data.Text.Foreign qualified as Text (fromPtr, lengthWord16, unsafeCopyToPtr)
import Data.Word (Word16, Word8)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekElemOff)

-- | The length of a text.
--
-- [Units]: bytes.
textBytes :: Text -> Int
textBytes text = 2 * Text.lengthWord16 text

-- | Write that many bytes.
pokeText :: Text -> Ptr Word8 -> IO ()
pokeText text to = Text.unsafeCopyToPtr text (castPtr to)

-- | The text of this many bytes, or what is wrong with them.
peekText :: Ptr Word8 -> Int -> IO (Either String Text)
peekText from n
  | odd n = pure (Left ("expected a Text, of an even number of bytes, found " ++ show n))
  | otherwise = loneSurrogate (castPtr from) (n `quot` 2) >>= maybe (Right <$> text) (pure . Left . wrong)
  where
    text = Text.fromPtr (castPtr from) (fromIntegral (n `quot` 2))
    wrong i = "expected a Text in UTF-16, found a lone surrogate at unit " ++ show i

loneSurrogate :: Ptr Word16 -> Int -> IO (Maybe Int)
loneSurrogate from n = go 0
  where
    go i
      | i >= n = pure Nothing
      | otherwise = do
        unit <- peekElemOff from i
        if unit < 0xd800 || unit > 0xdfff
          then go (i + 1)
          else do
            low <- if i + 1 < n && unit < 0xdc00 then peekElemOff from (i + 1) else pure 0
            if low < 0xdc00 || low > 0xdfff then pure (Just i) else go (i + 2)
