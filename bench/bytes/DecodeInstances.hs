{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE StandaloneDeriving #-}
{-# OPTIONS_GHC -Wno-orphans #-}

-- | Heddle's derived decoders for the documents.
module DecodeInstances
  (
  )
where

import Documents
import Heddle.Json.FromJson (FromJson)

deriving anyclass instance FromJson Search

deriving anyclass instance FromJson Status

deriving anyclass instance FromJson User

deriving anyclass instance FromJson Entities

deriving anyclass instance FromJson Hashtag

deriving anyclass instance FromJson Link

deriving anyclass instance FromJson Mention

deriving anyclass instance FromJson Metadata

deriving anyclass instance FromJson Record

deriving anyclass instance FromJson Address

deriving anyclass instance FromJson Numbers
