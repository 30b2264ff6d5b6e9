{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE DuplicateRecordFields #-}

-- | The documents of the JSON benchmarks as Haskell types, with each library's derived instances. The
-- files themselves are in the folder that the environment variable @HEDDLE_DOCUMENTS@ names.
module Documents
  ( -- * twitter.json
    Search (..),
    Status (..),
    User (..),
    Entities (..),
    Hashtag (..),
    Link (..),
    Mention (..),
    Metadata (..),

    -- * records.json
    Record (..),
    Address (..),

    -- * numbers.json
    Numbers (..),

    -- * Files
    readDocument,
  )
where

import Control.DeepSeq (NFData)
import Data.Aeson (FromJSON, ToJSON (..), defaultOptions, genericToEncoding)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Text (Text)
import GHC.Generics (Generic)
import Heddle.Json.Encode (ToJson)
import System.Environment (getEnv)

-- | What a search answers.
data Search = Search
  { statuses :: ![Status],
    search_metadata :: !Metadata
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Status = Status
  { created_at :: !Text,
    id :: !Int,
    id_str :: !Text,
    text :: !Text,
    source :: !Text,
    truncated :: !Bool,
    in_reply_to_status_id :: !(Maybe Int),
    in_reply_to_screen_name :: !(Maybe Text),
    user :: !User,
    retweeted_status :: !(Maybe Status),
    retweet_count :: !Int,
    favorite_count :: !Int,
    entities :: !Entities,
    favorited :: !Bool,
    retweeted :: !Bool,
    possibly_sensitive :: !(Maybe Bool),
    lang :: !Text
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data User = User
  { id :: !Int,
    id_str :: !Text,
    name :: !Text,
    screen_name :: !Text,
    location :: !Text,
    description :: !Text,
    url :: !(Maybe Text),
    protected :: !Bool,
    followers_count :: !Int,
    friends_count :: !Int,
    listed_count :: !Int,
    created_at :: !Text,
    favourites_count :: !Int,
    utc_offset :: !(Maybe Int),
    time_zone :: !(Maybe Text),
    geo_enabled :: !Bool,
    verified :: !Bool,
    statuses_count :: !Int,
    lang :: !Text,
    contributors_enabled :: !Bool,
    is_translator :: !Bool,
    profile_background_color :: !Text,
    profile_background_image_url :: !Text,
    profile_background_tile :: !Bool,
    profile_image_url :: !Text,
    profile_link_color :: !Text,
    default_profile :: !Bool,
    following :: !Bool
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Entities = Entities
  { hashtags :: ![Hashtag],
    urls :: ![Link],
    user_mentions :: ![Mention]
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Hashtag = Hashtag
  { text :: !Text,
    indices :: !(Int, Int)
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Link = Link
  { url :: !Text,
    expanded_url :: !Text,
    display_url :: !Text,
    indices :: !(Int, Int)
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Mention = Mention
  { screen_name :: !Text,
    name :: !Text,
    id :: !Int,
    indices :: !(Int, Int)
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Metadata = Metadata
  { completed_in :: !Double,
    max_id :: !Int,
    query :: !Text,
    count :: !Int,
    since_id :: !Int
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

-- | The file is a list of these.
data Record = Record
  { id :: !Int,
    name :: !Text,
    email :: !Text,
    age :: !Int,
    active :: !Bool,
    balance :: !Double,
    score :: !Double,
    joined :: !Text,
    tags :: ![Text],
    address :: !Address,
    manager :: !(Maybe Int)
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Address = Address
  { street :: !Text,
    city :: !Text,
    zip :: !Text
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

data Numbers = Numbers
  { name :: !Text,
    lines :: ![[(Double, Double)]],
    measured :: ![Double],
    counts :: ![Int]
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, NFData, ToJson)

-- aeson's instances as its documentation recommends them for speed.

instance ToJSON Search where toEncoding = genericToEncoding defaultOptions

instance ToJSON Status where toEncoding = genericToEncoding defaultOptions

instance ToJSON User where toEncoding = genericToEncoding defaultOptions

instance ToJSON Entities where toEncoding = genericToEncoding defaultOptions

instance ToJSON Hashtag where toEncoding = genericToEncoding defaultOptions

instance ToJSON Link where toEncoding = genericToEncoding defaultOptions

instance ToJSON Mention where toEncoding = genericToEncoding defaultOptions

instance ToJSON Metadata where toEncoding = genericToEncoding defaultOptions

instance ToJSON Record where toEncoding = genericToEncoding defaultOptions

instance ToJSON Address where toEncoding = genericToEncoding defaultOptions

instance ToJSON Numbers where toEncoding = genericToEncoding defaultOptions

-- | The file of this name.
readDocument :: String -> IO ByteString
readDocument document = do
  folder <- getEnv "HEDDLE_DOCUMENTS"
  ByteString.readFile (folder <> "/" <> document <> ".json")
